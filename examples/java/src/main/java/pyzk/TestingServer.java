package pyzk;

import java.io.Closeable;
import java.io.File;
import java.io.IOException;
import java.net.BindException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.curator.test.InstanceSpec; // drop this, and the constructor, if you have no curator-test

/**
 * Curator's {@code org.apache.curator.test.TestingServer}, but for the import: the same constructors and
 * methods, and up in milliseconds. The data, which survives {@link #restart()}, is in memory alone.
 */
public class TestingServer implements Closeable {
    private enum State { LATENT, STARTED, STOPPED, CLOSED }

    private static final int TICK_TIME = 1000; // in ms, as Curator's; also the least session timeout

    private static final Map<Object, TestingServer> STOPPED = new HashMap<>(); // by port

    private final String hosts;
    private final File directory;
    private final boolean deletesDirectory;
    private PyzkServer server; // null if another TestingServer has the port now
    private State state = State.LATENT;

    public TestingServer() throws Exception {
        this(true);
    }

    public TestingServer(boolean start) throws Exception {
        this(-1, null, start);
    }

    public TestingServer(int port) throws Exception {
        this(port, true);
    }

    public TestingServer(int port, boolean start) throws Exception {
        this(port, null, start);
    }

    public TestingServer(int port, File tempDirectory) throws Exception {
        this(port, tempDirectory, true);
    }

    public TestingServer(int port, File tempDirectory, boolean start) throws Exception {
        this(tempDirectory, true, config(port), start);
    }

    public TestingServer(InstanceSpec spec, boolean start) throws Exception {
        this(spec.getDataDirectory(), spec.deleteDataDirectoryOnClose(), config(spec), start);
    }

    private TestingServer(File directory, boolean deletesDirectory, Map<String, ?> config, boolean start)
            throws IOException {
        this.directory = directory != null ? directory : Files.createTempDirectory("zookeeper").toFile();
        this.deletesDirectory = deletesDirectory;
        PyzkServer found = before(config.get("clientPort"));
        server = found != null ? found : new PyzkServer(config); // now, as its port must be known
        hosts = server.getConnectString();
        if (!start) {
            shut();
        } else if (found != null) {
            open();
        } else {
            state = State.STARTED;
        }
    }

    /**
     * Takes the port from a stopped server, which would free it with Curator's. Returns that server if it had
     * the same directory, in which the data would be.
     */
    private PyzkServer before(Object port) {
        synchronized (STOPPED) {
            TestingServer stopped = STOPPED.remove(port);
            if (stopped == null) {
                return null;
            }
            PyzkServer theirs = stopped.server;
            stopped.server = null;
            if (stopped.directory.equals(directory)) {
                return theirs;
            }
            theirs.close();
            return null;
        }
    }

    private static Map<String, ?> config(int port) {
        Map<String, Object> config = properties();
        if (port >= 0) {
            config.put("clientPort", port);
        }
        return config;
    }

    private static Map<String, ?> config(InstanceSpec spec) {
        Map<String, Object> config = limits(spec);
        config.put("clientPort", spec.getPort());
        return config;
    }

    /** Returns the keys of zoo.cfg that an instance and the properties of this JVM ask for. */
    static Map<String, Object> limits(InstanceSpec spec) {
        Map<String, Object> config = properties();
        if (spec.getTickTime() > 0) {
            config.put("tickTime", spec.getTickTime());
            config.put("minSessionTimeout", spec.getTickTime());
        }
        if (spec.getMaxClientCnxns() >= 0) {
            config.put("maxClientCnxns", spec.getMaxClientCnxns());
        }
        config.putAll(spec.getCustomProperties());
        return config;
    }

    /** Curator's server is in this JVM, and so are the properties that a test sets for it. */
    private static Map<String, Object> properties() {
        Map<String, Object> config = new HashMap<>(Map.of("tickTime", TICK_TIME, "minSessionTimeout", TICK_TIME));
        for (String property : List.of("zookeeper.extendedTypesEnabled", "znode.container.checkIntervalMs")) {
            String value = System.getProperty(property);
            if (value != null) {
                config.put(property.replace("zookeeper.", ""), value);
            }
        }
        return config;
    }

    public int getPort() {
        return Integer.parseInt(getConnectString().split(":")[1]);
    }

    public String getConnectString() {
        return hosts;
    }

    public File getTempDirectory() {
        return directory;
    }

    /** Starts the server for the first time. It has no effect later: see {@link #restart()}. */
    public void start() throws Exception {
        if (state == State.LATENT) {
            open();
        }
    }

    /** Stops the server: no client can connect, and no session ends. */
    public void stop() throws IOException {
        if (state == State.STARTED) {
            shut();
            state = State.STOPPED;
            synchronized (STOPPED) {
                STOPPED.put(getPort(), this);
            }
        }
    }

    /** Stops the server, if it runs, and starts it with the znodes and sessions that it had. */
    public void restart() throws Exception {
        if (state == State.CLOSED) {
            throw new IllegalStateException("a closed server cannot be restarted");
        }
        stop();
        synchronized (STOPPED) {
            STOPPED.remove(getPort(), this);
        }
        if (server == null) {
            throw new BindException("another server has port " + getPort());
        }
        open();
    }

    /** Ends the server for good, and deletes the directory. */
    @Override
    public void close() throws IOException {
        if (state == State.CLOSED) {
            return;
        }
        state = State.CLOSED;
        synchronized (STOPPED) {
            STOPPED.remove(getPort(), this);
        }
        if (server != null) {
            server.close();
        }
        if (deletesDirectory) {
            delete(directory);
        }
    }

    /** Deletes a directory, if it is there, with all that is in it. */
    static void delete(File directory) throws IOException {
        if (directory.exists()) {
            try (Stream<Path> files = Files.walk(directory.toPath())) {
                files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
            }
        }
    }

    private void open() {
        server.post("/clock/unfreeze", Map.of());
        server.post("/server/restart", Map.of("keep_data", true)); // accepts connections again
        state = State.STARTED;
    }

    private void shut() {
        server.post("/clock/freeze", Map.of());
        server.post("/connections/refuse", Map.of());
        server.post("/connections/disconnect", Map.of());
    }
}
