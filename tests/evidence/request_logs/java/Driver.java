import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DeleteTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;

/**
 * Kafka's AdminClient as a program: a line of JSON for each call, and a line for its answer.
 *
 * <p>A call has "config" (of the client; clients are kept), "call" and what the call takes. An answer has "sent_ms" and
 * "answered_ms" (epoch) and "topics", each with "error" (Kafka's code), "throttle_ms" and what else is known.
 */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String RATE = "controller_mutation_rate";

    private final Map<JsonNode, Admin> clients = new HashMap<>();

    private interface Waiting {
        Object get() throws Exception;
    }

    /** Carries out the calls of standard input, one after the other. */
    public static void main(String[] args) throws Exception {
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Driver driver = new Driver();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                driver.carryOut(JSON.readTree(line), answer);
            } catch (Exception e) {
                answer.put("failed", String.valueOf(e instanceof ExecutionException ? e.getCause() : e));
            }
            output.println(JSON.writeValueAsString(answer));
        }
        driver.clients.values().forEach(Admin::close);
    }

    private void carryOut(JsonNode call, ObjectNode answer) throws Exception {
        Admin admin = clients.computeIfAbsent(call.get("config"), Driver::connect);
        answer.put("sent_ms", System.currentTimeMillis());
        switch (call.get("call").asText()) {
            case "create" -> create(admin, call, answer);
            case "grow" -> grow(admin, call, answer);
            case "delete" -> delete(admin, call, answer);
            case "quota" -> quota(admin, call);
            case "level" -> level(admin, call);
            default -> throw new IllegalArgumentException(call.toString());
        }
        answer.put("answered_ms", System.currentTimeMillis());
    }

    private static Admin connect(JsonNode config) {
        return Admin.create(new LinkedHashMap<String, Object>(strings(config)));
    }

    private static void create(Admin admin, JsonNode call, ObjectNode answer) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (JsonNode each : call.get("topics")) {
            topics.add(newTopic(each).configs(strings(each.path("configs"))));
        }
        CreateTopicsOptions options = new CreateTopicsOptions()
            .validateOnly(call.path("validate_only").asBoolean())
            .retryOnQuotaViolation(call.path("retries").asBoolean());
        CreateTopicsResult result = admin.createTopics(topics, options);
        for (NewTopic each : topics) {
            ObjectNode topic = outcome(answer, each.name(), result.values().get(each.name()));
            if (topic.get("error").asInt() == 0) {
                known(topic, "id", () -> result.topicId(each.name()).get());
                known(topic, "partitions", () -> result.numPartitions(each.name()).get());
            }
        }
    }

    private static NewTopic newTopic(JsonNode topic) {
        String name = topic.get("name").asText();
        if (topic.hasNonNull("assignments")) {
            Map<Integer, List<Integer>> replicas = new LinkedHashMap<>();
            topic.get("assignments").forEach(each -> replicas.put(replicas.size(), integers(each)));
            return new NewTopic(name, replicas);
        }
        Optional<Integer> count = topic.hasNonNull("asked") ? Optional.of(topic.get("asked").asInt()) : Optional.empty();
        Optional<Short> replicas = topic.hasNonNull("replication")
            ? Optional.of((short) topic.get("replication").asInt()) : Optional.empty();
        return new NewTopic(name, count, replicas);
    }

    private static void grow(Admin admin, JsonNode call, ObjectNode answer) throws Exception {
        Map<String, NewPartitions> topics = new LinkedHashMap<>();
        for (JsonNode each : call.get("topics")) {
            List<List<Integer>> replicas = new ArrayList<>();
            each.path("assignments").forEach(one -> replicas.add(integers(one)));
            int count = each.get("asked").asInt();
            topics.put(each.get("name").asText(),
                replicas.isEmpty() ? NewPartitions.increaseTo(count) : NewPartitions.increaseTo(count, replicas));
        }
        CreatePartitionsOptions options = new CreatePartitionsOptions()
            .validateOnly(call.path("validate_only").asBoolean())
            .retryOnQuotaViolation(call.path("retries").asBoolean());
        for (Map.Entry<String, ? extends Future<?>> each : admin.createPartitions(topics, options).values().entrySet()) {
            outcome(answer, each.getKey(), each.getValue());
        }
    }

    private static void delete(Admin admin, JsonNode call, ObjectNode answer) throws Exception {
        DeleteTopicsOptions options =
            new DeleteTopicsOptions().retryOnQuotaViolation(call.path("retries").asBoolean());
        if (call.path("by_id").asBoolean()) {
            List<Uuid> ids = new ArrayList<>();
            call.get("topics").forEach(each -> ids.add(Uuid.fromString(each.get("id").asText())));
            Map<Uuid, ? extends Future<?>> values =
                admin.deleteTopics(TopicCollection.ofTopicIds(ids), options).topicIdValues();
            for (Uuid id : ids) {
                outcome(answer, null, values.get(id)).put("id", id.toString());
            }
            return;
        }
        Collection<String> names = names(call);
        Map<String, ? extends Future<?>> values =
            admin.deleteTopics(TopicCollection.ofTopicNames(names), options).topicNameValues();
        for (String name : names) {
            outcome(answer, name, values.get(name));
        }
    }

    private static void quota(Admin admin, JsonNode call) throws Exception {
        ClientQuotaEntity entity = new ClientQuotaEntity(strings(call.get("entity")));
        Double rate = call.get("rate").isNull() ? null : call.get("rate").asDouble();
        ClientQuotaAlteration.Op change = new ClientQuotaAlteration.Op(RATE, rate);
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(change)))).all().get();
    }

    private static void level(Admin admin, JsonNode call) throws Exception {
        ConfigResource node = new ConfigResource(ConfigResource.Type.BROKER_LOGGER, call.get("node").asText());
        ConfigEntry level = new ConfigEntry(call.get("logger").asText(), call.get("level").asText());
        AlterConfigOp change = new AlterConfigOp(level, AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(node, List.of(change))).all().get();
    }

    /** Waits for a topic's outcome, and writes it down. */
    private static ObjectNode outcome(ObjectNode answer, String name, Future<?> future) throws Exception {
        ObjectNode topic = answer.withArray("topics").addObject().put("name", name).put("error", 0);
        try {
            future.get();
        } catch (ExecutionException e) {
            topic.put("error", Errors.forException(e.getCause()).code()).put("message", e.getCause().getMessage());
            if (e.getCause() instanceof ThrottlingQuotaExceededException refused) {
                topic.put("throttle_ms", refused.throttleTimeMs());
            }
        }
        return topic;
    }

    /** Writes down what only some versions of brokers answer. */
    private static void known(ObjectNode topic, String name, Waiting waiting) throws Exception {
        try {
            topic.putPOJO(name, waiting.get() instanceof Uuid id ? id.toString() : waiting.get());
        } catch (ExecutionException e) {
            topic.putNull(name);
        }
    }

    private static List<String> names(JsonNode call) {
        List<String> names = new ArrayList<>();
        call.get("topics").forEach(each -> names.add(each.get("name").asText()));
        return names;
    }

    private static List<Integer> integers(JsonNode array) {
        List<Integer> found = new ArrayList<>();
        array.forEach(each -> found.add(each.asInt()));
        return found;
    }

    private static Map<String, String> strings(JsonNode object) {
        Map<String, String> found = new HashMap<>();
        object.fieldNames().forEachRemaining(each -> found.put(each, object.get(each).asText(null)));
        return found;
    }
}
