package pyzk;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * How pyzk-server is started. These are tried, in this order: the command in PYZK_SERVER, and no other if it
 * is set; pyzk-server on the PATH; uvx or pipx, which download it; pyzk-server.pyz beside the classes.
 */
final class PyzkCommand {
    private static final List<String> OPTIONS = List.of("--port=0", "--end-with-stdin", "--log-level=warning");
    private static final String FILE = "pyzk-server.pyz";
    private static final String READY = "HTTP at ";

    /** Its standard input is open: when this JVM ends, that is closed, and the server ends. */
    record Started(Process process, String url) {}

    private PyzkCommand() {}

    /** Starts the first command that starts a server. The error is one sentence, without a stack trace. */
    static Started start(Map<String, String> environment) throws IOException {
        for (List<String> command : commands(environment)) {
            Optional<Started> started = started(command);
            if (started.isPresent()) {
                return started.get();
            }
        }
        String wish = environment.get("PYZK_SERVER");
        throw plain(wish == null
            ? "no pyzk-server was found: pip install pyzk-server, or name its command in PYZK_SERVER, put "
                + FILE + " beside the classes, or name a server that runs in PYZK_URL"
            : "the command in PYZK_SERVER starts no pyzk-server: " + wish);
    }

    /** Returns an error that is its message alone. */
    static IOException plain(String message) {
        IOException error = new IOException(message);
        error.setStackTrace(new StackTraceElement[0]);
        return error;
    }

    static List<List<String>> commands(Map<String, String> environment) throws IOException {
        String wish = environment.get("PYZK_SERVER");
        if (wish != null) {
            return List.of(words(wish, environment));
        }
        List<List<String>> found = new ArrayList<>();
        onPath(environment, "pyzk-server").ifPresent(command -> found.add(List.of(command)));
        onPath(environment, "uvx").ifPresent(uvx -> found.add(List.of(uvx, "--quiet", "pyzk-server")));
        onPath(environment, "pipx").ifPresent(pipx -> found.add(List.of(pipx, "run", "pyzk-server")));
        Optional<String> file = bundled();
        if (file.isPresent()) {
            python(environment).ifPresent(python -> found.add(List.of(python, file.get())));
        }
        return found;
    }

    /** A file may have blanks in its name; other blanks are between words. A .pyz file needs Python. */
    private static List<String> words(String wish, Map<String, String> environment) {
        List<String> words = Files.exists(Path.of(wish)) ? List.of(wish) : List.of(wish.trim().split("\\s+"));
        Optional<String> python = wish.endsWith(".pyz") ? python(environment) : Optional.empty();
        return Stream.concat(python.stream(), words.stream()).toList();
    }

    private static Optional<String> python(Map<String, String> environment) {
        return onPath(environment, "python3").or(() -> onPath(environment, "python"));
    }

    private static Optional<String> onPath(Map<String, String> environment, String name) {
        return Stream.of(environment.getOrDefault("PATH", "").split(File.pathSeparator))
            .filter(folder -> !folder.isEmpty())
            .flatMap(folder -> Stream.of("", ".exe").map(ending -> Path.of(folder, name + ending)))
            .filter(file -> Files.isRegularFile(file) && Files.isExecutable(file))
            .map(Path::toString).findFirst();
    }

    /** Returns the file beside the classes; out of a jar it is copied to a temporary file. */
    private static Optional<String> bundled() throws IOException {
        try (InputStream content = PyzkCommand.class.getResourceAsStream(FILE)) {
            if (content == null) {
                return Optional.empty();
            }
            Path copy = Files.createTempFile("pyzk-server", ".pyz");
            copy.toFile().deleteOnExit();
            Files.copy(content, copy, StandardCopyOption.REPLACE_EXISTING);
            return Optional.of(copy.toString());
        }
    }

    private static Optional<Started> started(List<String> command) {
        List<String> whole = Stream.concat(command.stream(), OPTIONS.stream()).toList();
        try {
            Process process = new ProcessBuilder(whole).redirectError(ProcessBuilder.Redirect.INHERIT).start();
            return process.inputReader().lines().filter(line -> line.startsWith(READY)).findFirst()
                .map(line -> new Started(process, line.substring(READY.length())));
        } catch (IOException error) { // it cannot be run: the next one may
            return Optional.empty();
        }
    }
}
