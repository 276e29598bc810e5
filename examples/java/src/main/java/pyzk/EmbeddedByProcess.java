package pyzk;

import java.io.IOException;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;

/** What the builder of {@link ZooKeeperServerEmbedded} builds. */
final class EmbeddedByProcess implements ZooKeeperServerEmbedded {
    private final Map<String, Object> config = new TreeMap<>();
    private PyzkServer server;

    EmbeddedByProcess(Properties configuration) {
        configuration.stringPropertyNames().forEach(key -> config.put(key, configuration.getProperty(key)));
        config.remove("host"); // often given, and no key of ZooKeeper
        if (config.keySet().stream().filter(key -> key.startsWith("server.")).count() > 1) {
            throw new IllegalStateException("an ensemble is TestingCluster, or PyzkServer.ensemble(3, Map.of())");
        }
        if (config.containsKey("secureClientPort")) {
            throw new IllegalStateException("secureClientPort: start a pyzk-server of your own for TLS");
        }
    }

    @Override
    public synchronized void start() throws IOException {
        if (server == null) {
            server = new PyzkServer(config);
        }
    }

    @Override
    public void start(long startupTimeout) throws IOException {
        start();
    }

    @Override
    public synchronized String getConnectionString() {
        if (server == null) {
            throw new IllegalStateException("the server does not run");
        }
        return server.getConnectString();
    }

    @Override
    public int getClientPort() {
        return Integer.parseInt(getConnectionString().split(":")[1]);
    }

    @Override
    public String getSecureConnectionString() {
        throw new IllegalStateException("No client address is configured");
    }

    @Override
    public synchronized void close() {
        if (server != null) {
            server.close();
            server = null;
        }
    }
}
