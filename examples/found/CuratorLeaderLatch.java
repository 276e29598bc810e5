import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.util.Properties;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.retry.RetryForever;

/**
 * Curator's LeaderLatch never leads again, after a restart of the server without its data: CURATOR-724. Versions
 * before 5.8.0 do so.
 *
 * <pre>
 * javac CuratorLeaderLatch.java
 * pyzk-sweep --clients a --orders none --faults restart-empty -- java CuratorLeaderLatch
 * </pre>
 *
 * The only candidate must lead, some seconds after any fault.
 */
public final class CuratorLeaderLatch {
    private static final int PATIENCE = 4_000; // ms

    private CuratorLeaderLatch() {}

    public static void main(String[] arguments) throws Exception {
        String verdict = "";
        Properties hosts;
        while ((hosts = next(verdict)) != null) {
            verdict = run(hosts.getProperty("a"));
        }
        System.exit(0);
    }

    private static String run(String hosts) {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(hosts, 10_000, 5_000, new RetryForever(20));
                LeaderLatch latch = new LeaderLatch(client, "/latch")) {
            client.start();
            client.blockUntilConnected();
            ask("start", "");
            latch.start();
            waitUntilItLeads(latch);
            client.checkExists().forPath("/work");
            boolean leads = waitUntilItLeads(latch);
            ask("stop", "");
            return leads ? "" : "the only candidate does not lead";
        } catch (Exception error) {
            return error.toString();
        }
    }

    private static boolean waitUntilItLeads(LeaderLatch latch) throws InterruptedException {
        for (int waited = 0; waited < PATIENCE; waited += 20) {
            if (latch.hasLeadership()) {
                return true;
            }
            Thread.sleep(20);
        }
        return false;
    }

    /** Say what was wrong with the last run; returns the addresses for the next one, or null. */
    private static Properties next(String verdict) throws Exception {
        HttpURLConnection answer = ask("next", verdict);
        if (answer.getResponseCode() != 200) {
            return null;
        }
        Properties hosts = new Properties();
        try (InputStream body = answer.getInputStream()) {
            hosts.load(body);
        }
        return hosts;
    }

    private static HttpURLConnection ask(String what, String body) throws Exception {
        URI uri = URI.create(System.getenv("PYZK_SWEEP") + "/sweep/" + what);
        HttpURLConnection connection = (HttpURLConnection) uri.toURL().openConnection();
        connection.setRequestMethod("POST");
        connection.setDoOutput(true);
        connection.getOutputStream().write(body.getBytes());
        connection.getResponseCode();
        return connection;
    }
}
