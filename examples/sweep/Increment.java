import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * Two clients add 1 to a number. Each reads it and writes it if nobody else has, and tries again if the
 * connection is lost. pyzk-sweep finds the run in which that is wrong:
 *
 * <pre>javac Increment.java &amp;&amp; pyzk-sweep -- java Increment</pre>
 *
 * A JVM takes long to start, so this one asks for one run after the other.
 */
public final class Increment {
    private Increment() {}

    public static void main(String[] arguments) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(2);
        String verdict = "";
        Properties hosts;
        while ((hosts = next(verdict)) != null) {
            verdict = run(hosts, threads);
        }
        System.exit(0);
    }

    private static String run(Properties hosts, ExecutorService threads) throws Exception {
        try (ZooKeeper first = new ZooKeeper(hosts.getProperty("a"), 10_000, event -> {});
                ZooKeeper second = new ZooKeeper(hosts.getProperty("b"), 10_000, event -> {})) {
            Future<?> one = threads.submit(() -> increment(first));
            Future<?> other = threads.submit(() -> increment(second));
            one.get();
            other.get();
            String number = new String(read(first, new Stat()));
            return number.equals("2") ? "" : "two increments, and the number is " + number;
        } catch (java.util.concurrent.ExecutionException error) {
            return error.getCause() instanceof KeeperException.SessionExpiredException
                    ? "gave up"
                    : error.getCause().toString();
        } catch (KeeperException.SessionExpiredException error) {
            return "gave up";
        }
    }

    private static Void increment(ZooKeeper client) throws Exception {
        while (true) {
            try {
                Stat stat = new Stat();
                int number = Integer.parseInt(new String(client.getData("/number", false, stat)));
                client.setData("/number", Integer.toString(number + 1).getBytes(), stat.getVersion());
                return null;
            } catch (KeeperException.NoNodeException error) {
                try {
                    client.create("/number", "1".getBytes(), ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
                    return null;
                } catch (KeeperException.ConnectionLossException | KeeperException.NodeExistsException again) {
                    continue;
                }
            } catch (KeeperException.ConnectionLossException | KeeperException.BadVersionException again) {
                continue;
            }
        }
    }

    private static byte[] read(ZooKeeper client, Stat stat) throws Exception {
        while (true) {
            try {
                return client.getData("/number", false, stat);
            } catch (KeeperException.ConnectionLossException again) {
                continue;
            }
        }
    }

    /** Say what was wrong with the last run; returns the addresses for the next one, or null. */
    private static Properties next(String verdict) throws IOException {
        URI uri = URI.create(System.getenv("PYZK_SWEEP") + "/sweep/next");
        HttpURLConnection connection = (HttpURLConnection) uri.toURL().openConnection();
        connection.setRequestMethod("POST");
        connection.setDoOutput(true);
        connection.getOutputStream().write(verdict.getBytes());
        if (connection.getResponseCode() != 200) {
            return null;
        }
        Properties hosts = new Properties();
        try (InputStream body = connection.getInputStream()) {
            hosts.load(body);
        }
        return hosts;
    }
}
