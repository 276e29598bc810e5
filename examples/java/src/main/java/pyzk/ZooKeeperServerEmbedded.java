package pyzk;

import java.nio.file.Path;
import java.util.Objects;
import java.util.Properties;
import org.apache.zookeeper.server.embedded.ExitHandler;

/**
 * ZooKeeper's {@code org.apache.zookeeper.server.embedded.ZooKeeperServerEmbedded}, but for the import: the
 * same builder and methods. The data is in memory alone, and ends with {@link #close()}.
 */
public interface ZooKeeperServerEmbedded extends AutoCloseable {
    static ZookKeeperServerEmbeddedBuilder builder() {
        return new ZookKeeperServerEmbeddedBuilder();
    }

    /** Its name is spelled as ZooKeeper spells it. */
    class ZookKeeperServerEmbeddedBuilder {
        private Path baseDir;
        private Properties configuration;

        /** It must be there, as with ZooKeeper; nothing is written to it. */
        public ZookKeeperServerEmbeddedBuilder baseDir(Path baseDir) {
            this.baseDir = Objects.requireNonNull(baseDir);
            return this;
        }

        /** Takes keys of zoo.cfg. A key that is wrong is refused when the server starts. */
        public ZookKeeperServerEmbeddedBuilder configuration(Properties configuration) {
            this.configuration = Objects.requireNonNull(configuration);
            return this;
        }

        /** It has no effect: the server is another process, and cannot end this one. */
        public ZookKeeperServerEmbeddedBuilder exitHandler(ExitHandler exitHandler) {
            Objects.requireNonNull(exitHandler);
            return this;
        }

        public ZooKeeperServerEmbedded build() throws Exception {
            if (baseDir == null) {
                throw new IllegalStateException("baseDir is null");
            }
            if (configuration == null) {
                throw new IllegalStateException("configuration is null");
            }
            return new EmbeddedByProcess(configuration);
        }
    }

    /** Starts the server. It serves when this returns. */
    void start() throws Exception;

    /** The same: a start takes milliseconds, so the limit in ms is not looked at. */
    void start(long startupTimeout) throws Exception;

    /** As in release 3.9 of ZooKeeper. */
    int getClientPort();

    String getConnectionString() throws Exception;

    /** There is none: TLS needs a {@code pyzk-server} of your own, and its address in PYZK_URL. */
    String getSecureConnectionString() throws Exception;

    /** Ends the server and its data. */
    @Override
    void close();
}
