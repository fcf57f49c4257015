import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.DeleteTopicsResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;

/**
 * Sends mutations, records and fetches by any kafka-clients from 2.0 on, and writes its observations as lines of JSON.
 *
 * Arguments: PREFIX NAME ADDRESS FIRST_USER.
 */
public final class OldClient {
    private static final String STRINGS = "org.apache.kafka.common.serialization.String";

    private final String[] arguments;

    private OldClient(String[] arguments) {
        this.arguments = arguments;
    }

    private interface Request {
        String send() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        OldClient program = new OldClient(arguments);
        List<Callable<Void>> cases = List.of(program::create, program::grow, program::delete, program::records);
        ExecutorService pool = Executors.newCachedThreadPool();
        for (Future<Void> each : pool.invokeAll(cases)) {
            each.get();
        }
        System.exit(0);
    }

    private Void create() {
        try (AdminClient admin = AdminClient.create(properties(0))) {
            Request cluster = () -> admin.describeCluster().nodes().get().size() + " node";
            observe("create", "connect", cluster);
            observe("create", "overdrawn by 8", () -> outcomes(admin.createTopics(topics("a", 11)).values()));
            observe("create", "in debt", () -> outcomes(admin.createTopics(topics("b", 1)).values()));
            observe("create", "another call of this client", cluster);
            observe("create", "exists", () -> outcomes(admin.createTopics(topics("a", 1)).values()));
        }
        return null;
    }

    private Void grow() {
        try (AdminClient admin = AdminClient.create(properties(1))) {
            observe("grow", "overdrawn by 8", () -> outcomes(admin.createPartitions(count("grown-a", 12)).values()));
            observe("grow", "in debt", () -> outcomes(admin.createPartitions(count("grown-b", 2)).values()));
        }
        return null;
    }

    private Void delete() {
        try (AdminClient admin = AdminClient.create(properties(2))) {
            observe("delete", "overdrawn by 8", () -> outcomes(deleted(admin, "deleted-a")));
            observe("delete", "in debt", () -> outcomes(deleted(admin, "deleted-b")));
        }
        return null;
    }

    /** Deletes a topic; the results have another name in newer releases. */
    @SuppressWarnings("unchecked")
    private Map<String, KafkaFuture<Void>> deleted(AdminClient admin, String name) throws Exception {
        Object result = admin.deleteTopics(List.of(topic(name)));
        List<String> names = List.of("values", "topicNameValues");
        Method values = Arrays.stream(DeleteTopicsResult.class.getMethods())
            .filter(method -> names.contains(method.getName()))
            .findAny()
            .get();
        return (Map<String, KafkaFuture<Void>>) values.invoke(result);
    }

    private Void records() {
        Properties properties = properties(3);
        TopicPartition partition = new TopicPartition(topic("data"), 0);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties);
                KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
            ProducerRecord<String, String> record = new ProducerRecord<>(topic("data"), "hello");
            observe("records", "produce", () -> "offset " + producer.send(record).get().offset());
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            observe("records", "fetch", () -> {
                ConsumerRecords<String, String> found = consumer.poll(Duration.ofSeconds(60));
                return found.iterator().next().value();
            });
        }
        return null;
    }

    private Properties properties(int number) {
        String user = String.format("%s-%03d", arguments[1], Integer.parseInt(arguments[3]) + number);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[2]);
        properties.put("security.protocol", "SASL_PLAINTEXT");
        properties.put("sasl.mechanism", "PLAIN");
        properties.put("sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule required username=\""
            + user + "\" password=\"" + user + "-secret\";");
        for (String name : List.of("key", "value")) {
            properties.put(name + ".serializer", STRINGS + "Serializer");
            properties.put(name + ".deserializer", STRINGS + "Deserializer");
        }
        return properties;
    }

    private String topic(String name) {
        return arguments[1] + "-" + arguments[0] + "-" + name;
    }

    private List<NewTopic> topics(String name, int partitions) {
        return List.of(new NewTopic(topic(name), partitions, (short) 1));
    }

    private Map<String, NewPartitions> count(String name, int partitions) {
        return Collections.singletonMap(topic(name), NewPartitions.increaseTo(partitions));
    }

    private static String outcomes(Map<String, ? extends Future<?>> futures) throws InterruptedException {
        Map<String, String> outcomes = new TreeMap<>();
        for (Map.Entry<String, ? extends Future<?>> each : futures.entrySet()) {
            try {
                each.getValue().get();
                outcomes.put(each.getKey(), "ok");
            } catch (ExecutionException e) {
                outcomes.put(each.getKey(), described(e.getCause()));
            }
        }
        return outcomes.toString();
    }

    private static void observe(String name, String step, Request request) {
        double sent = System.nanoTime() / 1e6;
        String seen;
        try {
            seen = request.send();
        } catch (Exception e) {
            seen = described(e instanceof ExecutionException ? e.getCause() : e);
        }
        System.out.println(String.format("{\"case\": \"%s\", \"step\": \"%s\", \"seen\": \"%s\", \"sent\": %f, \"received\": %f}",
            name, step, seen.replaceAll("[\\\\\"\n]", "'"), sent, System.nanoTime() / 1e6));
    }

    /** An error without the times in its message. */
    private static String described(Throwable error) {
        return error.getClass().getSimpleName() + ": " + String.valueOf(error.getMessage()).replaceAll("[0-9]{5,}", "N");
    }
}
