import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.CompletionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DeleteTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;

/**
 * Kafka's own AdminClient, as applications use it: it carries out calls, and prints the outcome of each topic.
 *
 * <p>Arguments: bootstrap server, client-id, and, for a quota of the broker's own, mutations a second. A line of the
 * input is "CALL create|delete TIMEOUT_MS PARTITIONS TOPIC...", and of the output "CALL\tTOPIC\tERROR\tMESSAGE". No
 * call is waited for before the next.
 */
public final class AdminStorm {
    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("client.id", args[1]);
        config.put("default.api.timeout.ms", "300000");
        try (Admin admin = Admin.create(config);
                BufferedReader input = new BufferedReader(new InputStreamReader(System.in))) {
            if (args.length > 2) {
                ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, args[1]));
                ClientQuotaAlteration.Op rate =
                        new ClientQuotaAlteration.Op("controller_mutation_rate", Double.valueOf(args[2]));
                admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(rate)))).all().get();
            }
            print("ready");
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                String[] words = line.split(" ");
                List<String> topics = Arrays.asList(words).subList(4, words.length);
                int timeout = Integer.parseInt(words[2]);
                Map<String, KafkaFuture<Void>> calls = words[1].equals("create")
                        ? create(admin, topics, Integer.parseInt(words[3]), timeout)
                        : admin.deleteTopics(topics, new DeleteTopicsOptions().timeoutMs(timeout)).topicNameValues();
                calls.forEach((topic, call) -> call.whenComplete((none, error) -> report(words[0], topic, error)));
            }
        }
    }

    private static Map<String, KafkaFuture<Void>> create(Admin admin, List<String> names, int partitions, int timeout) {
        List<NewTopic> topics = new ArrayList<>();
        for (String name : names) {
            topics.add(new NewTopic(name, Optional.of(partitions), Optional.empty()));
        }
        return admin.createTopics(topics, new CreateTopicsOptions().timeoutMs(timeout)).values();
    }

    private static void report(String call, String topic, Throwable wrapped) {
        Throwable error = wrapped instanceof CompletionException ? wrapped.getCause() : wrapped;
        String kind = error == null ? "" : error.getClass().getSimpleName();
        String message = error == null ? "" : String.valueOf(error.getMessage()).replaceAll("\\s+", " ");
        print(call + "\t" + topic + "\t" + kind + "\t" + message);
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
