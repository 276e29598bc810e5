package pyzk;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryForever;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** Servers with settings, for all tests of a class. */
@Execution(ExecutionMode.CONCURRENT)
class PyzkExtensionTest {
    @RegisterExtension
    static final PyzkExtension ZOOKEEPER = PyzkExtension.ensemble(3, Map.of("maxSessionTimeout", 30_000));

    @Test
    void anEnsembleWithSettings(PyzkServer servers) throws Exception {
        String hosts = servers.getConnectString();
        assertEquals(3, hosts.split(",").length);
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(hosts, new RetryForever(50))) {
            client.start();
            assertTrue(client.blockUntilConnected(30, SECONDS));
            assertEquals(30_000, client.getZookeeperClient().getZooKeeper().getSessionTimeout());
        }
    }
}
