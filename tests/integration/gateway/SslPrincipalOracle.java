import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/**
 * Reads a subject (DER) and mapping rules (both base64) a line; writes the subject's name, and whom Kafka takes it for
 * (base64), which is missing if no rule applies.
 */
public class SslPrincipalOracle {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            String name = new X500Principal(Base64.getDecoder().decode(words[0])).getName();
            String rules = new String(Base64.getDecoder().decode(words[1]), StandardCharsets.UTF_8);
            String user = "";
            try {
                user = " " + encoded(new SslPrincipalMapper(rules).getName(name));
            } catch (Exception rejected) {
                // nobody
            }
            System.out.println(encoded(name) + user);
        }
    }

    private static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
