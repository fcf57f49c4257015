import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.LauncherConstants;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs tests of JUnit (class:CLASS, method:CLASS#METHOD or uid:ID), and prints the outcome of each as a line of JSON. The
 * clients of the tests connect to a gateway if the variable PEERS_GATEWAYS is set.
 */
public final class Run implements TestExecutionListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int SHOWN = 400;
    private static final Map<TestExecutionResult.Status, String> WORDS = Map.of(
        TestExecutionResult.Status.SUCCESSFUL, "passed",
        TestExecutionResult.Status.FAILED, "failed",
        TestExecutionResult.Status.ABORTED, "skipped");

    public static void main(String[] selected) {
        var request = LauncherDiscoveryRequestBuilder.request()
            .selectors(DiscoverySelectors.parseAll(selected).toList())
            .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true")
            .configurationParameter("junit.jupiter.execution.timeout.default", "300 s")
            .configurationParameter(LauncherConstants.CAPTURE_STDOUT_PROPERTY_NAME, "true")
            .build();
        LauncherFactory.create().execute(request, new Run());
        System.exit(0); // threads of brokers may be left
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        boolean failed = result.getStatus() != TestExecutionResult.Status.SUCCESSFUL;
        if (test.isTest() || failed) {
            print(test, WORDS.get(result.getStatus()), result.getThrowable().map(String::valueOf).orElse(""));
        }
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        print(test, "skipped", reason);
    }

    private void print(TestIdentifier test, String outcome, String detail) {
        Map<String, String> line = new LinkedHashMap<>();
        line.put("id", test.isTest() ? test.getUniqueId() : "");
        line.put("test", name(test));
        line.put("outcome", outcome);
        line.put("detail", detail.length() > SHOWN ? detail.substring(0, SHOWN) : detail);
        try {
            System.err.flush();
            System.out.println("PEERS " + JSON.writeValueAsString(line));
        } catch (com.fasterxml.jackson.core.JsonProcessingException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** Returns the name of a test's method, with what distinguishes its invocations: each counts. */
    private String name(TestIdentifier test) {
        String method = test.getSource()
            .filter(MethodSource.class::isInstance)
            .map(source -> ((MethodSource) source).getMethodName())
            .orElse(test.getDisplayName());
        String shown = test.getDisplayName().replace("()", "");
        return shown.startsWith(method) ? shown : method + " " + shown;
    }
}
