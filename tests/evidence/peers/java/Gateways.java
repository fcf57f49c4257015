import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.common.security.auth.SecurityProtocol;

/**
 * The gateways in front of the brokers of a test. They are opened by the program whose port is the variable
 * PEERS_GATEWAYS; without it, addresses stay those of the brokers.
 */
final class Gateways {
    private static final String OPENER = System.getenv("PEERS_GATEWAYS");
    private static final Map<String, String> BY_BROKER = new HashMap<>();

    private Gateways() { }

    static boolean areUsed() {
        return OPENER != null;
    }

    /** Returns the addresses of gateways in front of these brokers, whose clients need no login, in their order. */
    static String inFrontOf(String brokers) {
        return inFrontOf(brokers, SecurityProtocol.PLAINTEXT);
    }

    /** Returns the addresses of gateways in front of these brokers, in their order. */
    static synchronized String inFrontOf(String brokers, SecurityProtocol protocol) {
        if (!areUsed() || brokers.isEmpty()) {
            return brokers;
        }
        if (Arrays.stream(brokers.split(",")).noneMatch(BY_BROKER::containsKey)) {
            BY_BROKER.clear(); // a new cluster: the gateway of the last one is closed
            for (String pair : ask("open " + protocol + " " + brokers).split(",")) {
                BY_BROKER.put(pair.split("=")[0], pair.split("=")[1]);
            }
        }
        return Arrays.stream(brokers.split(",")).map(broker -> BY_BROKER.getOrDefault(broker, broker))
            .collect(Collectors.joining(","));
    }

    private static String ask(String question) {
        try (Socket socket = new Socket("127.0.0.1", Integer.parseInt(OPENER))) {
            socket.getOutputStream().write((question + "\n").getBytes(StandardCharsets.UTF_8));
            String answer = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8)).readLine();
            if (answer == null || answer.startsWith("!")) {
                throw new IllegalStateException("no gateway: " + answer);
            }
            return answer;
        } catch (IOException error) {
            throw new IllegalStateException("no gateway", error);
        }
    }
}
