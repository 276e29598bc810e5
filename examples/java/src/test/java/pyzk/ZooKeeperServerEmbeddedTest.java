package pyzk;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.server.embedded.ExitHandler;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** For a suite that used ZooKeeper's own class nothing changes but the import. */
@Execution(ExecutionMode.CONCURRENT)
class ZooKeeperServerEmbeddedTest {
    private static CuratorFramework connect(ZooKeeperServerEmbedded server) throws Exception {
        CuratorFramework client =
            CuratorFrameworkFactory.newClient(server.getConnectionString(), new RetryForever(50));
        client.start();
        assertTrue(client.blockUntilConnected(30, SECONDS));
        return client;
    }

    private static Properties properties(Map<String, String> keys) {
        Properties properties = new Properties();
        properties.putAll(keys);
        return properties;
    }

    @Test
    void aServerThatABuilderHasMade(@TempDir Path directory) throws Exception {
        Properties properties = properties(Map.of("clientPort", "0", "host", "localhost", "tickTime", "100",
            "metricsProvider.className", "org.apache.zookeeper.metrics.impl.NullMetricsProvider"));
        try (ZooKeeperServerEmbedded server = ZooKeeperServerEmbedded.builder().baseDir(directory)
                .configuration(properties).exitHandler(ExitHandler.LOG_ONLY).build()) {
            server.start(60_000);
            assertTrue(server.getConnectionString().endsWith(":" + server.getClientPort()));
            try (CuratorFramework client = connect(server)) {
                client.create().forPath("/a", "x".getBytes());
                assertEquals("x", new String(client.getData().forPath("/a")));
            }
            server.close();
            assertThrows(IllegalStateException.class, server::getConnectionString);

            server.start();

            try (CuratorFramework client = connect(server)) {
                assertNull(client.checkExists().forPath("/a")); // its data has ended with it
            }
        }
    }

    @Test
    void whatABuilderRefuses(@TempDir Path directory) {
        var builder = ZooKeeperServerEmbedded.builder().baseDir(directory);
        assertThrows(IllegalStateException.class, builder::build);
        for (String key : new String[] {"secureClientPort", "server.1"}) {
            builder.configuration(properties(Map.of(key, "1", "server.2", "127.0.0.1:2:3")));
            assertThrows(IllegalStateException.class, builder::build);
        }
    }
}
