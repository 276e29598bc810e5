package pyzk;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.CuratorWatcher;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** What a test can do with a server of its own: eleven scenarios with Curator. */
@Execution(ExecutionMode.CONCURRENT) // if junit.jupiter.execution.parallel.enabled=true
@ExtendWith(PyzkExtension.class)
class PyzkServerTest {
    private static final int PATIENCE = 30; // seconds

    /** Returns a connected client, with a name for its session. */
    private static CuratorFramework connect(PyzkServer server, String name) throws InterruptedException {
        return connect(server, name, server.getConnectString());
    }

    private static CuratorFramework connect(PyzkServer server, String name, String hosts)
            throws InterruptedException {
        server.post("/names", Map.of("name", name));
        CuratorFramework client = CuratorFrameworkFactory.newClient(hosts, new RetryForever(50));
        client.start();
        assertTrue(client.blockUntilConnected(PATIENCE, SECONDS));
        return client;
    }

    private static String read(CuratorFramework client, String path) throws Exception {
        return new String(client.getData().forPath(path));
    }

    private static void assertTree(PyzkServer server, Map<String, ?> znodes) {
        String answer = server.post("/tree/diff", Map.of("znodes", znodes));
        assertEquals("", PyzkServer.member(answer, "message"));
    }

    @Test
    void expireALockHolder(PyzkServer server) throws Exception {
        try (CuratorFramework holder = connect(server, "holder");
                CuratorFramework other = connect(server, "other")) {
            CountDownLatch lost = new CountDownLatch(1);
            holder.getConnectionStateListenable().addListener((client, state) -> {
                if (state == ConnectionState.LOST) {
                    lost.countDown();
                }
            });
            new InterProcessMutex(holder, "/locks/printer").acquire();
            InterProcessMutex mutex = new InterProcessMutex(other, "/locks/printer");
            FutureTask<Boolean> acquired = new FutureTask<>(() -> mutex.acquire(PATIENCE, SECONDS));
            new Thread(acquired).start();
            server.post("/wait",
                Map.of("until", "request", "session", "other", "op", "get_data", "path", "/locks/**"));

            server.expire("holder");

            assertTrue(acquired.get());
            assertTrue(lost.await(PATIENCE, SECONDS));
        }
    }

    @Test
    void aCreateWhoseReplyIsLost(PyzkServer server) throws Exception {
        try (CuratorFramework client = connect(server, "client")) {
            server.post("/tree", Map.of("znodes", Map.of("/queue", "")));
            String fault = PyzkServer.member(
                server.post("/faults", Map.of("op", "create", "path", "/queue/*", "when", "after")), "fault");

            String path = client.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL)
                .forPath("/queue/n-", "job".getBytes());

            assertEquals("1", PyzkServer.member(server.get("/faults/" + fault), "fired"));
            assertTree(server, Map.of("/queue", "", path, "job")); // one, though it was sent again
        }
    }

    @Test
    void anHourPassesForATtl() throws Exception {
        try (PyzkServer server = new PyzkServer(Map.of("extendedTypesEnabled", true));
                CuratorFramework client = connect(server, "client")) {
            client.create().withTtl(Duration.ofHours(1).toMillis()).withMode(CreateMode.PERSISTENT_WITH_TTL)
                .forPath("/cached");
            server.advance(Duration.ofMinutes(59));
            assertNotNull(client.checkExists().forPath("/cached"));

            server.advance(Duration.ofMinutes(2)); // the server looks for stale znodes every minute

            assertNull(client.checkExists().forPath("/cached"));
        }
    }

    @Test
    void aClientIsCutOffAndDoesNotKnow(PyzkServer server) throws Exception {
        try (CuratorFramework worker = connect(server, "worker");
                CuratorFramework other = connect(server, "other")) {
            server.post("/tree", Map.of("znodes", Map.of("/report", "old")));
            InterProcessMutex mutex = new InterProcessMutex(worker, "/lock");
            mutex.acquire();

            server.post("/sessions/worker/pause", Map.of());
            CompletableFuture<Integer> written = new CompletableFuture<>();
            worker.setData().withVersion(0)
                .inBackground((client, event) -> written.complete(event.getResultCode()))
                .forPath("/report", "mine".getBytes());
            assertTrue(mutex.isAcquiredInThisProcess() && worker.getZookeeperClient().isConnected());
            server.post("/connections/refuse", Map.of());
            server.advance(Duration.ofMinutes(2)); // its session expires

            assertTrue(new InterProcessMutex(other, "/lock").acquire(PATIENCE, SECONDS));
            other.setData().forPath("/report", "theirs".getBytes());
            assertFalse(written.isDone());
            server.post("/connections/accept", Map.of());
            assertEquals(Code.BADVERSION.intValue(), written.get(PATIENCE, SECONDS)); // Curator tried again
            assertEquals("theirs", read(other, "/report"));
        }
    }

    @Test
    void aPartitionThatLasts(PyzkServer server) throws Exception {
        try (CuratorFramework worker = connect(server, "worker", server.endpoint("worker"));
                CuratorFramework other = connect(server, "other")) {
            new InterProcessMutex(worker, "/lock").acquire();

            server.post("/endpoints/worker/cut", Map.of());
            server.advance(Duration.ofMinutes(2)); // the worker's session expires

            assertTrue(new InterProcessMutex(other, "/lock").acquire(PATIENCE, SECONDS));
            while (worker.getZookeeperClient().isConnected()) {
                Thread.sleep(10); // the worker notices the silence later
            }
            server.post("/endpoints/worker/resume", Map.of());
            assertTrue(worker.blockUntilConnected(PATIENCE, SECONDS));
        }
    }

    @Test
    void restartEmpty(PyzkServer server) throws Exception {
        try (CuratorFramework client = connect(server, "client");
                PersistentNode node =
                    new PersistentNode(client, CreateMode.EPHEMERAL, false, "/registered", new byte[0])) {
            node.start();
            assertTrue(node.waitForInitialCreate(PATIENCE, SECONDS));
            server.post("/tree", Map.of("znodes", Map.of("/somebody", "else's")));

            server.post("/server/restart", Map.of("keep_data", false));

            server.post("/wait", Map.of("until", "exists", "path", "/registered"));
            assertTree(server, Map.of("/registered", ""));
        }
    }

    @Test
    void seedAndCompareATree(PyzkServer server) throws Exception {
        server.post("/tree", Map.of("znodes", Map.of("/app/config", "debug=0", "/app/workers", "")));
        try (CuratorFramework client = connect(server, "client")) {
            client.setData().forPath("/app/config", "debug=1".getBytes());
            client.create().forPath("/app/workers/a", new byte[0]);

            assertTree(server, Map.of("/app/config", "debug=1", "/app/workers", "", "/app/workers/a", ""));
            String wrong = assertThrows(AssertionError.class, () ->
                assertTree(server, Map.of("/app/config", "debug=0"))).getMessage();
            assertTrue(wrong.contains("holds 'debug=1', expected 'debug=0'"), wrong);
        }
    }

    @Nested
    @Execution(ExecutionMode.SAME_THREAD) // its tests share a server
    class SnapshotAndRestoreBetweenTests {
        private static String prepared;

        @BeforeAll
        static void prepare(PyzkServer server) {
            server.post("/tree", Map.of("znodes", Map.of("/stock/apples", "3")));
            prepared = PyzkServer.member(server.post("/snapshots", Map.of()), "snapshot");
        }

        @BeforeEach
        void restore(PyzkServer server) {
            server.post("/snapshots/" + prepared + "/restore", Map.of());
        }

        @RepeatedTest(2)
        void eachTestBeginsWithTheSnapshot(PyzkServer server) throws Exception {
            try (CuratorFramework client = connect(server, "client")) {
                assertEquals("3", read(client, "/stock/apples"));
                client.setData().forPath("/stock/apples", "2".getBytes());
            }
        }
    }

    @Test
    void theTimelineInTheMessageOfAFailingTest(PyzkServer server) throws Exception {
        try (CuratorFramework client = connect(server, "client")) {
            client.create().forPath("/state", "starting".getBytes());
            AssertionError failure =
                assertThrows(AssertionError.class, () -> assertEquals("ready", read(client, "/state")));

            Throwable explained = PyzkExtension.explained(failure, server); // as the extension does

            assertSame(failure, explained); // so that an IDE shows the difference
            String seen = explained.getSuppressed()[0].getMessage();
            assertTrue(seen.contains("create /state 'starting'"), seen);
            String refused = assertThrows(IllegalStateException.class, () ->
                server.post("/wait", Map.of("path", "/never", "timeout", 0.01))).getMessage();
            assertTrue(refused.contains("waited 0.01 s for /never to exist"), refused);
            assertTrue(refused.lines().anyMatch(line -> line.endsWith("'starting' -> ok")), refused);
        }
    }

    @Test
    void anEventThatComesLate(PyzkServer server) throws Exception {
        try (CuratorFramework client = connect(server, "client")) {
            client.create().forPath("/config", "old".getBytes());
            CompletableFuture<EventType> event = new CompletableFuture<>();
            client.checkExists().usingWatcher((CuratorWatcher) seen -> event.complete(seen.getType()))
                .forPath("/config");
            server.post("/holds", Map.of("kind", "event", "path", "/config"));

            client.setData().forPath("/config", "new".getBytes());

            assertEquals("new", read(client, "/config"));
            assertFalse(event.isDone());
            server.post("/held/release", Map.of());
            assertEquals(EventType.NodeDataChanged, event.get(PATIENCE, SECONDS));
        }
    }

    @Test
    void theLeaderOfAnEnsembleDies() throws Exception {
        try (PyzkServer servers = PyzkServer.ensemble(3, Map.of());
                CuratorFramework client = connect(servers, "client")) {
            client.create().withMode(CreateMode.EPHEMERAL).forPath("/mine", new byte[0]);
            long session = client.getZookeeperClient().getZooKeeper().getSessionId();

            servers.post("/ensemble/kill", Map.of("server", 1));
            servers.post("/ensemble/kill", Map.of("server", "leader")); // one is left, and serves nobody
            servers.post("/ensemble/calm", Map.of());

            assertNotNull(client.checkExists().forPath("/mine")); // its session lives on
            assertEquals(session, client.getZookeeperClient().getZooKeeper().getSessionId());
        }
    }
}
