package pyzk;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Collection;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryForever;
import org.apache.curator.test.InstanceSpec;
import org.apache.zookeeper.CreateMode;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** For a suite that used Curator's TestingCluster nothing changes but the import. */
@Execution(ExecutionMode.SAME_THREAD) // numbers of servers are counted in a static field of Curator's
class TestingClusterTest {
    private static CuratorFramework connect(String hosts) throws InterruptedException {
        CuratorFramework client = CuratorFrameworkFactory.newClient(hosts, new RetryForever(50));
        client.start();
        assertTrue(client.blockUntilConnected(30, SECONDS));
        return client;
    }

    private static InstanceSpec serverOf(TestingCluster cluster, CuratorFramework client) throws Exception {
        client.checkExists().forPath("/"); // it is connected
        return cluster.findConnectionInstance(client.getZookeeperClient().getZooKeeper());
    }

    @Test
    void aClientGoesOnAtAnotherServer() throws Exception {
        try (TestingCluster cluster = new TestingCluster(3)) {
            cluster.start();
            try (CuratorFramework client = connect(cluster.getConnectString())) {
                client.create().withMode(CreateMode.EPHEMERAL).forPath("/a", "x".getBytes());
                long session = client.getZookeeperClient().getZooKeeper().getSessionId();
                InstanceSpec first = serverOf(cluster, client);
                assertTrue(cluster.getInstances().contains(first));

                assertTrue(cluster.killServer(first));

                assertEquals("x", new String(client.getData().forPath("/a")));
                assertEquals(session, client.getZookeeperClient().getZooKeeper().getSessionId());
                assertNotEquals(first, serverOf(cluster, client));
                assertTrue(cluster.restartServer(first));
                try (CuratorFramework other = connect(first.getConnectString())) {
                    other.sync().forPath("/a");
                    assertEquals("x", new String(other.getData().forPath("/a")));
                }
                assertFalse(cluster.killServer(InstanceSpec.newInstanceSpec()));
            }
        }
    }

    @Test
    void anotherClusterOfStoppedServersHasTheirData() throws Exception {
        try (TestingCluster cluster = new TestingCluster(3)) {
            cluster.start();
            try (CuratorFramework client = connect(cluster.getConnectString())) {
                client.create().forPath("/a", "x".getBytes());
            }
            List<InstanceSpec> specs = List.copyOf(cluster.getInstances());
            cluster.stop();

            try (TestingCluster again = new TestingCluster(specs.subList(0, 2))) {
                again.start();
                try (CuratorFramework client = connect(again.getConnectString())) {
                    assertEquals("x", new String(client.getData().forPath("/a")));
                }
            }
        }
    }

    @Test
    void serversStartOneByOne() throws Exception {
        TestingCluster cluster = new TestingCluster(TestingCluster.makeSpecs(3));
        List<TestingZooKeeperServer> servers = cluster.getServers();
        servers.get(0).start();
        servers.get(2).start();
        try (CuratorFramework client = connect(cluster.getConnectString())) {
            client.create().forPath("/a");
            assertNotEquals(servers.get(1).getInstanceSpec(), serverOf(cluster, client));
        }
        Collection<InstanceSpec> specs = cluster.getInstances();

        cluster.close();
        cluster.close();

        assertThrows(IllegalStateException.class, () -> servers.get(0).restart());
        assertTrue(specs.stream().noneMatch(spec -> spec.getDataDirectory().exists()));
    }

    @Test
    void aClusterOfOne() throws Exception {
        try (TestingCluster cluster = new TestingCluster(1)) {
            cluster.start();
            try (CuratorFramework client = connect(cluster.getConnectString())) {
                client.create().forPath("/a", "x".getBytes());
                InstanceSpec only = cluster.getInstances().iterator().next();
                cluster.killServer(only);
                cluster.restartServer(only);
                assertEquals("x", new String(client.getData().forPath("/a")));
            }
        }
    }
}
