package pyzk;

import java.io.Closeable;
import java.io.IOException;
import java.lang.reflect.Method;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.curator.test.InstanceSpec;
import org.apache.zookeeper.ZooKeeper;

/**
 * Curator's {@code org.apache.curator.test.TestingCluster}, but for the import: the same constructors and
 * methods, and up in milliseconds. It is a pretend ensemble: docs/ensemble.md says what that is not. The
 * data, which survive {@link #stop()}, are in memory alone.
 */
public class TestingCluster implements Closeable {
    private final PretendEnsemble ensemble;
    private final List<TestingZooKeeperServer> servers;

    public TestingCluster(int instanceQty) {
        this(makeSpecs(instanceQty));
    }

    public TestingCluster(InstanceSpec... specs) {
        this(listToMap(Arrays.asList(specs)));
    }

    public TestingCluster(Collection<InstanceSpec> specs) {
        this(listToMap(specs));
    }

    /** Each server knows all the others here, whatever its list of peers says. */
    public TestingCluster(Map<InstanceSpec, Collection<InstanceSpec>> specs) {
        specs.forEach((spec, peers) -> {
            if (!peers.contains(spec)) {
                throw new IllegalStateException(spec + " not found in specs");
            }
        });
        ensemble = PretendEnsemble.of(specs.keySet());
        servers = specs.keySet().stream().map(spec -> new TestingZooKeeperServer(ensemble, spec)).toList();
    }

    public Collection<InstanceSpec> getInstances() {
        return servers.stream().map(TestingZooKeeperServer::getInstanceSpec)
            .collect(Collectors.toCollection(ArrayList::new));
    }

    public List<TestingZooKeeperServer> getServers() {
        return new ArrayList<>(servers);
    }

    public String getConnectString() {
        return servers.stream().map(server -> server.getInstanceSpec().getConnectString())
            .collect(Collectors.joining(","));
    }

    /** Starts the servers. They serve when it returns. */
    public void start() throws Exception {
        ensemble.startAll(getInstances());
        for (TestingZooKeeperServer server : servers) {
            server.start();
        }
    }

    /** Stops all servers; their data and sessions stay. */
    public void stop() throws IOException {
        for (TestingZooKeeperServer server : servers) {
            server.stop();
        }
    }

    /** Ends all servers for good, and deletes their directories. */
    @Override
    public void close() throws IOException {
        for (TestingZooKeeperServer server : servers) {
            server.close();
        }
        ensemble.endUnlessUp();
    }

    /** Ends a server as if its process died; returns whether it is one of these. */
    public boolean killServer(InstanceSpec instance) throws Exception {
        Optional<TestingZooKeeperServer> found = find(instance);
        found.ifPresent(TestingZooKeeperServer::kill);
        return found.isPresent();
    }

    /** Starts a server again, with what it had; returns whether it is one of these. */
    public boolean restartServer(InstanceSpec instance) throws Exception {
        Optional<TestingZooKeeperServer> found = find(instance);
        if (found.isPresent()) {
            found.get().restart();
        }
        return found.isPresent();
    }

    private Optional<TestingZooKeeperServer> find(InstanceSpec instance) {
        return servers.stream().filter(server -> server.getInstanceSpec().equals(instance)).findFirst();
    }

    /** Returns the server that a client is connected to, or null. */
    public InstanceSpec findConnectionInstance(ZooKeeper client) throws Exception {
        Method method = ZooKeeper.class.getDeclaredMethod("testableRemoteSocketAddress");
        method.setAccessible(true);
        if (method.invoke(client) instanceof InetSocketAddress address) {
            return getInstances().stream().filter(spec -> spec.getPort() == address.getPort())
                .findFirst().orElse(null);
        }
        return null;
    }

    public static Map<InstanceSpec, Collection<InstanceSpec>> makeSpecs(int instanceQty) {
        return makeSpecs(instanceQty, true);
    }

    public static Map<InstanceSpec, Collection<InstanceSpec>> makeSpecs(
            int instanceQty, boolean resetServerIds) {
        if (resetServerIds) {
            InstanceSpec.reset();
        }
        List<InstanceSpec> specs = new ArrayList<>();
        for (int i = 0; i < instanceQty; i++) {
            specs.add(InstanceSpec.newInstanceSpec());
        }
        return listToMap(specs);
    }

    private static Map<InstanceSpec, Collection<InstanceSpec>> listToMap(Collection<InstanceSpec> specs) {
        Map<InstanceSpec, Collection<InstanceSpec>> map = new LinkedHashMap<>();
        specs.forEach(spec -> map.put(spec, specs));
        return map;
    }
}
