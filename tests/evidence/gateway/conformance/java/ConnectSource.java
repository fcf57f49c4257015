import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A source connector that writes one record to each of its topics (`topics.of.source`), in order. */
public final class ConnectSource extends SourceConnector {
    private static final String TOPICS = "topics.of.source";

    private Map<String, String> properties;

    @Override
    public void start(Map<String, String> given) {
        properties = given;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return OneRecordEach.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return List.of(properties);
    }

    @Override
    public void stop() { }

    @Override
    public ConfigDef config() {
        return new ConfigDef().define(TOPICS, ConfigDef.Type.LIST, ConfigDef.Importance.HIGH, "the topics");
    }

    @Override
    public String version() {
        return "1";
    }

    /** Its task. */
    public static final class OneRecordEach extends SourceTask {
        private final List<String> left = new ArrayList<>();

        @Override
        public void start(Map<String, String> given) {
            left.addAll(List.of(given.get(TOPICS).split(",")));
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            if (left.isEmpty()) {
                Thread.sleep(100);
                return null;
            }
            String topic = left.remove(0);
            return List.of(new SourceRecord(Map.of("s", "s"), Map.of("o", topic), topic, Schema.STRING_SCHEMA, "one"));
        }

        @Override
        public void stop() { }

        @Override
        public String version() {
            return "1";
        }
    }
}
