package pyzk;

import static java.util.stream.Collectors.joining;

import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * A fresh ZooKeeper server, or a pretend ensemble. All servers run in one process: the one at PYZK_URL, or a
 * pyzk-server ({@link PyzkCommand} finds it) that is started at first use and ends with this JVM. The calls:
 * docs/http.md.
 */
public final class PyzkServer implements AutoCloseable {
    private static final HttpClient HTTP = HttpClient.newHttpClient();
    private static PyzkCommand.Started started; // kept: the process ends when its standard input is closed
    private static String main = System.getenv("PYZK_URL");

    private final String created;
    private final boolean isEnsemble;

    /** Starts a server with these keys of zoo.cfg, such as {@code Map.of("tickTime", 100)}. */
    public PyzkServer(Map<String, ?> config) throws IOException {
        this(Map.of("config", config), false);
    }

    private PyzkServer(Map<String, ?> asked, boolean isEnsemble) throws IOException {
        launch();
        this.isEnsemble = isEnsemble;
        created = send(main, "POST", "/servers", asked);
    }

    /**
     * Starts a pretend ensemble of so many servers. What a test does to it: docs/ensemble.md, as in
     * {@code post("/ensemble/kill", Map.of("server", "leader"))}.
     */
    public static PyzkServer ensemble(int servers, Map<String, ?> config) throws IOException {
        return new PyzkServer(Map.of("config", config, "ensemble", servers), true);
    }

    private static synchronized void launch() throws IOException {
        if (main == null) {
            started = PyzkCommand.start(System.getenv());
            main = started.url();
        }
    }

    @Override
    public void close() {
        send(main, "DELETE", path(), null);
    }

    private String path() {
        return "/servers/" + member(created, "server");
    }

    private String url() { // asked for each time: the first server of an ensemble may be down
        return member(send(main, "GET", path(), null), "url");
    }

    public String getConnectString() {
        return member(created, "hosts");
    }

    /** Ends a session as if by time: one with a name, an id, or an ephemeral znode ("owner-of:/leader"). */
    public void expire(String session) {
        post("/sessions/" + URLEncoder.encode(session, StandardCharsets.UTF_8) + "/expire", Map.of());
    }

    /** Returns an address for some clients; {@code post("/endpoints/NAME/cut", Map.of())} cuts them off. */
    public String endpoint(String name) {
        return member(post("/endpoints", Map.of("name", name)), "hosts");
    }

    /** Lets time jump. Clients that are connected count as having sent their pings. */
    public void advance(Duration time) {
        post("/clock/advance", Map.of("seconds", time.toMillis() / 1000.0, "keep_alive", true));
    }

    /** Makes any call that changes something. */
    public String post(String path, Map<String, ?> body) {
        return send(url(), "POST", path, body);
    }

    /** Makes any call that only asks. */
    public String get(String path) {
        return send(url(), "GET", path, null);
    }

    /** Returns what has happened, of all servers of an ensemble. */
    public String timeline() {
        return get((isEnsemble ? "/ensemble" : "") + "/timeline");
    }

    private static String send(String url, String method, String path, Map<String, ?> body) {
        HttpRequest request = HttpRequest.newBuilder(URI.create(url).resolve("/api/v1" + path))
            .header("content-type", "application/json")
            .method(method, HttpRequest.BodyPublishers.ofString(body == null ? "" : json(body))).build();
        HttpResponse<String> answer = HTTP.sendAsync(request, HttpResponse.BodyHandlers.ofString()).join();
        if (answer.statusCode() != 200) {
            throw new IllegalStateException(method + " " + path + ": " + answer.body().replace("\\n", "\n"));
        }
        return answer.body();
    }

    private static String json(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream().map(entry -> json(entry.getKey()) + ":" + json(entry.getValue()))
                .collect(joining(",", "{", "}"));
        }
        if (value instanceof String text) {
            return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + '"';
        }
        return String.valueOf(value); // a number, true, false, null, or a list of numbers
    }

    /** Returns a member of an answer: a number, true, false, or text (as it is written in JSON). */
    public static String member(String answer, String name) {
        Pattern pattern = Pattern.compile('"' + name + "\": (?:\"((?:[^\"\\\\]|\\\\.)*)\"|([^,}]+))");
        return pattern.matcher(answer).results()
            .map(found -> found.group(found.group(1) == null ? 2 : 1)).findFirst().orElseThrow();
    }
}
