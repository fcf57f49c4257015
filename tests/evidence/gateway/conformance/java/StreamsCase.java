import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * An application that counts words, whose internal topics are created by its admin client, in debt.
 * Records go straight to the broker.
 */
final class StreamsCase {
    private static final Map<String, Long> COUNTS = Map.of("a", 3L, "b", 2L, "c", 1L);
    private static final int SECONDS = 120;

    private StreamsCase() { }

    static Map<String, Clients.Case> cases(Side side) {
        return Map.of("count words", (observer, user) -> run(observer, side, user));
    }

    private static void run(Observer observer, Side side, int user) throws Exception {
        Properties data = side.properties(user, Map.of("bootstrap.servers", side.broker()));
        produce(data, side.topic("words"));
        try (Admin admin = Admin.create(side.properties(user, Map.of()))) {
            observer.topics("overdrawn by 8", () -> admin.createTopics(
                List.of(new NewTopic(side.topic("streams-a"), Optional.of(11), Optional.empty()))).values());
        }
        Properties properties = new Properties();
        properties.putAll(data);
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, side.topic("counter"));
        properties.put(StreamsConfig.STATE_DIR_CONFIG, side.folder().toString());
        properties.put(StreamsConfig.adminClientPrefix("bootstrap.servers"), side.address());
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        properties.put("auto.offset.reset", "earliest");
        observer.one("start, with two internal topics of 3 partitions", () -> counted(side, properties));
    }

    private static void produce(Properties data, String topic) throws Exception {
        StringSerializer strings = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(data, strings, strings)) {
            for (String word : List.of("a", "b", "a", "c", "b", "a")) {
                producer.send(new ProducerRecord<>(topic, word)).get();
            }
        }
    }

    private static String counted(Side side, Properties properties) throws Exception {
        Map<String, Long> counts = new TreeMap<>();
        CountDownLatch complete = new CountDownLatch(1);
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(side.topic("words"))
            .selectKey((key, word) -> word)
            .groupByKey()
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .foreach((word, count) -> {
                synchronized (counts) {
                    counts.put(word, count);
                    if (counts.equals(COUNTS)) {
                        complete.countDown();
                    }
                }
            });
        try (KafkaStreams streams = new KafkaStreams(builder.build(), properties)) {
            streams.start();
            boolean finished = complete.await(SECONDS, TimeUnit.SECONDS);
            synchronized (counts) {
                return (finished ? "" : "not complete: ") + counts;
            }
        }
    }
}
