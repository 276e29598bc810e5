package pyzk;

import java.io.Closeable;
import java.io.IOException;
import java.util.Collection;
import java.util.List;
import org.apache.curator.test.InstanceSpec;

/** One server of a {@link TestingCluster}, as Curator's class of this name. */
public class TestingZooKeeperServer implements Closeable {
    private enum State { LATENT, STARTED, STOPPED, CLOSED }

    private final PretendEnsemble ensemble;
    private final InstanceSpec spec;
    private State state = State.LATENT;

    TestingZooKeeperServer(PretendEnsemble ensemble, InstanceSpec spec) {
        this.ensemble = ensemble;
        this.spec = spec;
    }

    public Collection<InstanceSpec> getInstanceSpecs() {
        return List.copyOf(ensemble.specs());
    }

    public InstanceSpec getInstanceSpec() {
        return spec;
    }

    /** Starts the server for the first time. It has no effect later: see {@link #restart()}. */
    public void start() throws Exception {
        if (state == State.LATENT) {
            ensemble.start(spec);
            state = State.STARTED;
        }
    }

    /** Ends the server as if its process died: its port refuses clients, its data stay. */
    public void kill() {
        if (state == State.STARTED) {
            ensemble.kill(spec);
        }
        state = State.STOPPED;
    }

    public void stop() throws IOException {
        if (state == State.STARTED) {
            kill();
        }
    }

    /** Stops the server, if it runs, and starts it with what it had. */
    public void restart() throws Exception {
        if (state == State.CLOSED) {
            throw new IllegalStateException("a closed server cannot be restarted");
        }
        stop();
        ensemble.start(spec);
        state = State.STARTED;
    }

    /** Ends the server for good, and deletes its directory. */
    @Override
    public void close() throws IOException {
        stop();
        if (state == State.CLOSED) {
            return;
        }
        state = State.CLOSED;
        ensemble.close(spec);
        if (spec.deleteDataDirectoryOnClose()) {
            TestingServer.delete(spec.getDataDirectory());
        }
    }
}
