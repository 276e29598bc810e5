package pyzk;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.net.BindException;
import java.util.Map;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryForever;
import org.apache.curator.test.InstanceSpec;
import org.apache.zookeeper.CreateMode;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** For a suite that used Curator's TestingServer nothing changes but the import. */
@Execution(ExecutionMode.CONCURRENT)
class TestingServerTest {
    private static CuratorFramework client(TestingServer server) {
        CuratorFramework client =
            CuratorFrameworkFactory.newClient(server.getConnectString(), new RetryForever(50));
        client.start();
        return client;
    }

    @Test
    void dataAndSessionsSurviveARestart() throws Exception {
        try (TestingServer server = new TestingServer(); CuratorFramework client = client(server)) {
            client.create().withMode(CreateMode.EPHEMERAL).forPath("/a", "x".getBytes());
            long session = client.getZookeeperClient().getZooKeeper().getSessionId();

            server.restart();

            assertEquals("x", new String(client.getData().forPath("/a")));
            assertEquals(session, client.getZookeeperClient().getZooKeeper().getSessionId());
        }
    }

    @Test
    void whileItIsStoppedNoClientCanConnect() throws Exception {
        try (TestingServer server = new TestingServer(false); CuratorFramework client = client(server)) {
            assertFalse(client.blockUntilConnected(200, MILLISECONDS));
            server.start();
            assertTrue(client.blockUntilConnected(30, SECONDS));
            server.stop();
            server.start(); // no effect, as with Curator's
            try (CuratorFramework other = client(server)) {
                assertFalse(other.blockUntilConnected(200, MILLISECONDS));
                server.restart();
                assertTrue(other.blockUntilConnected(30, SECONDS));
            }
        }
    }

    @Test
    void itHasThePortAndTheDirectoryThatItIsGiven() throws Exception {
        Map<String, Object> properties = Map.of("extendedTypesEnabled", true);
        InstanceSpec spec = new InstanceSpec(null, -1, -1, -1, true, -1, 100, 1, properties);
        TestingServer server = new TestingServer(spec, true);
        File directory = server.getTempDirectory();
        assertEquals(spec.getPort(), server.getPort());
        assertEquals(spec.getDataDirectory(), directory);
        assertEquals("127.0.0.1:" + spec.getPort(), server.getConnectString());
        assertTrue(new File(directory, "file").createNewFile());

        server.close();
        server.close();

        assertFalse(directory.exists());
        assertThrows(IllegalStateException.class, server::restart);
    }

    @Test
    void anotherServerTakesThePortOfAStoppedOne() throws Exception {
        try (TestingServer first = new TestingServer(); CuratorFramework client = client(first)) {
            client.create().forPath("/a", "x".getBytes());
            first.stop();

            try (TestingServer second = new TestingServer(first.getPort(), first.getTempDirectory())) {
                assertEquals("x", new String(client.getData().forPath("/a"))); // by its directory
                assertThrows(BindException.class, first::restart);
                second.stop();
                try (TestingServer third = new TestingServer(first.getPort());
                        CuratorFramework other = client(third)) {
                    assertNull(other.checkExists().forPath("/a"));
                }
            }
        }
    }
}
