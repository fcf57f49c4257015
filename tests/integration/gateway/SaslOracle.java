import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.sasl.SaslServer;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslServer;
import org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler;
import org.apache.kafka.common.security.plain.PlainAuthenticateCallback;
import org.apache.kafka.common.security.plain.internals.PlainSaslServer;
import org.apache.kafka.common.security.scram.internals.ScramFormatter;
import org.apache.kafka.common.security.scram.internals.ScramMessages;

/**
 * Reads a mechanism and the messages of an exchange (base64) a line; writes how many of them Kafka takes until it
 * accepts the client, 0 if it does not, and whom it takes it for (base64).
 */
public class SaslOracle {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            String told = "0 ";
            try {
                told = told(words);
            } catch (Exception rejected) {
                // nobody
            }
            System.out.println(told);
        }
    }

    private static String told(String[] words) throws Exception {
        if (words[0].startsWith("SCRAM")) {
            return accepted(1, scram(Base64.getDecoder().decode(words[1])));
        }
        SaslServer server = words[0].equals("PLAIN") ? plain() : bearer();
        for (int number = 1; number < words.length; number++) {
            server.evaluateResponse(Base64.getDecoder().decode(words[number]));
            if (server.isComplete()) {
                return accepted(number, server.getAuthorizationID());
            }
        }
        return accepted(0, null);
    }

    private static String accepted(int messages, String user) {
        if (user == null) {
            return "0 ";
        }
        return messages + " " + Base64.getEncoder().encodeToString(user.getBytes(StandardCharsets.UTF_8));
    }

    private static String scram(byte[] message) throws Exception {
        ScramMessages.ClientFirstMessage first = new ScramMessages.ClientFirstMessage(message);
        String user = ScramFormatter.username(first.saslName());
        if (!first.authorizationId().isEmpty() && !first.authorizationId().equals(user)) {
            return null;
        }
        return first.extensions().tokenAuthenticated() ? "\u0000token" : user;
    }

    private static SaslServer plain() {
        return new PlainSaslServer(callbacks -> {
            for (Callback each : callbacks) {
                if (each instanceof PlainAuthenticateCallback) {
                    ((PlainAuthenticateCallback) each).authenticated(true);
                }
            }
        });
    }

    private static SaslServer bearer() {
        OAuthBearerUnsecuredValidatorCallbackHandler handler = new OAuthBearerUnsecuredValidatorCallbackHandler();
        Map<String, String> options = new HashMap<>();
        AppConfigurationEntry entry = new AppConfigurationEntry(
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
            AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, options);
        handler.configure(new HashMap<>(), "OAUTHBEARER", List.of(entry));
        return new OAuthBearerSaslServer(handler);
    }
}
