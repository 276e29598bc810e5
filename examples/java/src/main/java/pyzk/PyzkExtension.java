package pyzk;

import java.io.IOException;
import java.util.Map;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ExtensionContext.Store.CloseableResource;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolutionException;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestExecutionExceptionHandler;
import org.opentest4j.TestAbortedException;

/**
 * For JUnit 5: a test with a parameter of type {@link PyzkServer} has a fresh one, and shows what that has
 * seen when the test fails. A {@code @BeforeAll} method with such a parameter starts one for all tests of the
 * class. {@code @ExtendWith(PyzkExtension.class)} is for servers with the default settings; for others:
 *
 * <pre>{@code @RegisterExtension
 * static final PyzkExtension ZOOKEEPER = PyzkExtension.with(Map.of("tickTime", 100));}</pre>
 */
public final class PyzkExtension implements ParameterResolver, TestExecutionExceptionHandler {
    private static final Namespace NAMESPACE = Namespace.create(PyzkExtension.class);

    private final Map<String, ?> config;
    private final int servers; // 0: no ensemble

    public PyzkExtension() {
        this(Map.of(), 0);
    }

    private PyzkExtension(Map<String, ?> config, int servers) {
        this.config = config;
        this.servers = servers;
    }

    /** Returns one for servers with these keys of zoo.cfg. */
    public static PyzkExtension with(Map<String, ?> config) {
        return new PyzkExtension(config, 0);
    }

    /** Returns one for pretend ensembles of so many servers with these keys: see {@link PyzkServer#ensemble}. */
    public static PyzkExtension ensemble(int servers, Map<String, ?> config) {
        return new PyzkExtension(config, servers);
    }

    /** What JUnit closes after the test, or after the tests of a class. */
    private record Started(PyzkServer server) implements CloseableResource {
        static Started fresh(Map<String, ?> config, int servers) {
            try {
                return new Started(
                    servers == 0 ? new PyzkServer(config) : PyzkServer.ensemble(servers, config));
            } catch (IOException error) { // one sentence, without a cause and a stack trace
                ParameterResolutionException failure = new ParameterResolutionException(error.getMessage());
                failure.setStackTrace(new StackTraceElement[0]);
                throw failure;
            }
        }

        @Override
        public void close() {
            server.close();
        }
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext test) {
        return parameter.getParameter().getType() == PyzkServer.class;
    }

    @Override
    public PyzkServer resolveParameter(ParameterContext parameter, ExtensionContext test) {
        Started started = test.getStore(NAMESPACE)
            .getOrComputeIfAbsent("server", key -> Started.fresh(config, servers), Started.class);
        return started.server();
    }

    @Override
    public void handleTestExecutionException(ExtensionContext test, Throwable failure) throws Throwable {
        Started started = test.getStore(NAMESPACE).get("server", Started.class);
        boolean isSkipped = failure instanceof TestAbortedException;
        throw started == null || isSkipped ? failure : explained(failure, started.server());
    }

    /**
     * Returns the same failure; its stack trace ends with what the server has seen. Its type and its message
     * stay, so an IDE shows the difference between what was expected and what was found.
     */
    public static Throwable explained(Throwable failure, PyzkServer server) {
        failure.addSuppressed(new Seen(server.timeline()));
        return failure;
    }

    /** What a server has seen, in the stack trace of a failure. */
    private static final class Seen extends Exception {
        private static final long serialVersionUID = 1;

        Seen(String timeline) {
            super("this is no failure, but what the server has seen:\n\n" + timeline, null, false, false);
        }
    }
}
