import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.cli.ConnectStandalone;
import org.apache.kafka.connect.runtime.Connect;

/**
 * A Connect worker, whose admin client creates the topics of a source connector.
 *
 * Each topic has 8 partitions: the first overdraws the bucket of 3 by 5 s, so the second has to wait for 5 s.
 */
final class ConnectCase {
    private static final int PARTITIONS = 8;
    private static final int SECONDS = 120;

    private ConnectCase() { }

    static Map<String, Clients.Case> cases(Side side) {
        return Map.of("a source connector with two topics of 8 partitions", (observer, user) -> run(observer, side, user));
    }

    private static void run(Observer observer, Side side, int user) throws Exception {
        List<String> topics = List.of(side.topic("connect-a"), side.topic("connect-b"));
        Properties source = new Properties();
        source.putAll(Map.of("name", "source", "connector.class", "ConnectSource", "tasks.max", "1",
            "topics.of.source", String.join(",", topics), "topic.creation.default.partitions", "" + PARTITIONS,
            "topic.creation.default.replication.factor", "1"));
        String connector = side.written("source.properties", source);
        ConnectStandalone standalone = new ConnectStandalone("worker.properties", connector);
        Connect<?> worker = started(standalone, worker(side, user), connector);
        try (Admin admin = Admin.create(side.properties(user, Map.of("bootstrap.servers", side.broker())))) {
            double first = firstRecord(admin, topics.get(0));
            double second = firstRecord(admin, topics.get(1));
            observer.add("a record in the first, which overdraws by 5 s", "there", first, first, null, "");
            observer.add("a record in the second", "there", first, second, null, "");
        } finally {
            worker.stop();
        }
    }

    private static Connect<?> started(ConnectStandalone standalone, Map<String, String> worker, String connector) {
        var connect = standalone.startConnect(worker);
        standalone.processExtraArgs(connect, new String[] {connector});
        return connect;
    }

    private static Map<String, String> worker(Side side, int user) {
        String converter = "org.apache.kafka.connect.storage.StringConverter";
        Map<String, String> worker = new HashMap<>(Map.of("listeners", "http://127.0.0.1:0", "key.converter", converter,
            "value.converter", converter, "offset.storage.file.filename", side.folder() + "/offsets",
            "plugin.discovery", "service_load", "topic.creation.enable", "true"));
        Properties client = side.properties(user, Map.of("bootstrap.servers", side.broker()));
        for (String prefix : List.of("", "producer.", "admin.")) {
            client.forEach((name, value) -> worker.put(prefix + name, value.toString()));
        }
        worker.put("admin.bootstrap.servers", side.address());
        return worker;
    }

    /** The time at which a topic has its first record. */
    private static double firstRecord(Admin admin, String topic) throws Exception {
        Map<TopicPartition, OffsetSpec> ends = IntStream.range(0, PARTITIONS).boxed()
            .collect(Collectors.toMap(number -> new TopicPartition(topic, number), number -> OffsetSpec.latest()));
        double deadline = Observer.now() + SECONDS * 1000;
        while (Observer.now() < deadline) {
            try {
                if (admin.listOffsets(ends).all().get().values().stream().anyMatch(each -> each.offset() > 0)) {
                    return Observer.now();
                }
            } catch (ExecutionException unknown) {
                // it does not exist yet, or its partitions have no leaders
            }
            Thread.sleep(50);
        }
        throw new IllegalStateException("Connect writes no record to " + topic);
    }
}
