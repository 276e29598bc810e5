package pyzk;

import java.io.IOException;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.curator.test.InstanceSpec;

/**
 * The servers of one or more clusters. It begins when the first of its servers starts, and ends when all are
 * closed. A cluster of servers that another cluster has stopped, but not closed, goes on with their data: it
 * shares this object, as with Curator it would find their directories.
 */
final class PretendEnsemble {
    private static final Map<InstanceSpec, PretendEnsemble> ALIVE = new HashMap<>();

    private final List<InstanceSpec> specs;
    private final Set<InstanceSpec> up = new HashSet<>();
    private final Set<InstanceSpec> closed = new HashSet<>();
    private PyzkServer server;

    private PretendEnsemble(Collection<InstanceSpec> specs) {
        this.specs = List.copyOf(specs);
    }

    /** Returns the one that these are servers of, or a new one. */
    static synchronized PretendEnsemble of(Collection<InstanceSpec> specs) {
        PretendEnsemble found = specs.isEmpty() ? null : ALIVE.get(specs.iterator().next());
        return found != null && found.specs.containsAll(specs) ? found : new PretendEnsemble(specs);
    }

    List<InstanceSpec> specs() {
        return specs;
    }

    synchronized void start(InstanceSpec spec) throws IOException {
        boolean isFirst = server == null;
        if (isFirst) {
            begin();
            for (InstanceSpec other : specs) {
                if (!other.equals(spec)) {
                    post("kill", other);
                }
            }
        } else if (!up.contains(spec)) {
            post("start", spec);
        }
        up.add(spec);
    }

    /** Starts all that do not run, together: none of them waits for an election. */
    synchronized void startAll(Collection<InstanceSpec> chosen) throws IOException {
        if (server == null && chosen.containsAll(specs)) {
            begin();
            up.addAll(specs);
        }
        for (InstanceSpec spec : chosen) {
            start(spec);
        }
    }

    private void begin() throws IOException {
        Map<String, Object> config = new HashMap<>(Map.of("initLimit", 10, "syncLimit", 5));
        for (InstanceSpec spec : specs) {
            config.putAll(TestingServer.limits(spec));
        }
        for (InstanceSpec spec : specs) {
            String address = String.join(":", spec.getHostname(), String.valueOf(spec.getQuorumPort()),
                String.valueOf(spec.getElectionPort()), "participant;" + spec.getHostname());
            config.put("server." + spec.getServerId(), address + ":" + spec.getPort());
        }
        server = PyzkServer.ensemble(specs.size(), config);
        synchronized (PretendEnsemble.class) {
            specs.forEach(spec -> ALIVE.put(spec, this));
        }
    }

    synchronized void kill(InstanceSpec spec) {
        if (up.remove(spec)) {
            post("kill", spec);
        }
    }

    synchronized void close(InstanceSpec spec) {
        kill(spec);
        closed.add(spec);
        if (up.isEmpty() && server != null && closed.containsAll(specs)) {
            end();
        }
    }

    /** Ends all servers: no cluster that shares this object has one that runs. */
    synchronized void endUnlessUp() {
        if (up.isEmpty() && server != null) {
            end();
        }
    }

    private void end() {
        server.close();
        server = null;
        synchronized (PretendEnsemble.class) {
            ALIVE.values().removeIf(each -> each == this);
        }
    }

    private void post(String verb, InstanceSpec spec) {
        server.post("/ensemble/" + verb, Map.of("server", spec.getServerId()));
    }
}
