import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.retry.RetryForever;

/**
 * Curator's double barrier for three lets one through, after one cut connection: apache/curator#1290.
 *
 * <pre>
 * javac CuratorDoubleBarrier.java
 * pyzk-sweep --clients a --orders none --patience 3 --faults lost,reply-lost -- java CuratorDoubleBarrier
 * </pre>
 *
 * One member waits for 1.5 s, alone: it must be told that it has not entered.
 */
public final class CuratorDoubleBarrier {
    private CuratorDoubleBarrier() {}

    public static void main(String[] arguments) throws Exception {
        String verdict = "";
        Properties hosts;
        while ((hosts = next(verdict)) != null) {
            verdict = run(hosts.getProperty("a"));
        }
        System.exit(0);
    }

    private static String run(String hosts) {
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(hosts, 10_000, 5_000, new RetryForever(20))) {
            client.start();
            client.create().forPath("/barrier");
            ask("start", "");
            boolean entered = new DistributedDoubleBarrier(client, "/barrier", 3).enter(1500, TimeUnit.MILLISECONDS);
            ask("stop", "");
            return entered ? "one of three has got through" : "";
        } catch (Exception error) {
            return error.toString();
        }
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
