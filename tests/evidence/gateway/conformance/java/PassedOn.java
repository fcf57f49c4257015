import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Calls that change no topics: those of the AdminClient, of a producer, a transaction and a consumer. */
final class PassedOn {
    private static final int SECONDS = 60;
    private static final int RECORDS = 200;
    private static final int POLL_MS = 50;

    private final Side side;
    private final int user;
    private final String topic;
    private final TopicPartition partition;

    PassedOn(Side side, int user) {
        this.side = side;
        this.user = user;
        topic = side.topic("passed-on");
        partition = new TopicPartition(topic, 0);
    }

    void run(Observer observer) throws Exception {
        String group = side.topic("passed-on-group");
        ConfigResource config = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        AclBinding acl = new AclBinding(new ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL),
            new AccessControlEntry("User:nobody", "*", AclOperation.READ, AclPermissionType.ALLOW));
        AlterConfigOp retention = new AlterConfigOp(new ConfigEntry("retention.ms", "5000"), AlterConfigOp.OpType.SET);
        try (Admin admin = Admin.create(side.properties(user, Map.of()))) {
            observer.topics("createTopics, within the quota",
                () -> admin.createTopics(List.of(new NewTopic(topic, Optional.of(2), Optional.empty()))).values());
            observer.one("listTopics", () -> eventually("true",
                () -> own(admin.listTopics().names().get()).contains(topic) + ""));
            observer.one("describeTopics", () -> eventually("leader", () -> admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic)
                .partitions().toString()));
            observer.one("describeCluster", () -> admin.describeCluster().clusterId().get() + " "
                + admin.describeCluster().nodes().get());
            observer.one("incrementalAlterConfigs",
                () -> "" + admin.incrementalAlterConfigs(Map.of(config, List.of(retention))).all().get());
            observer.one("describeConfigs", () -> eventually("5000",
                () -> admin.describeConfigs(List.of(config)).all().get().get(config).get("retention.ms").value()));
            observer.one("describeConfigs of the broker", () -> admin.describeConfigs(
                List.of(new ConfigResource(ConfigResource.Type.BROKER, "1"))).all().get().size() + "");
            observer.one("produce, acks=all", () -> produced(Map.of("acks", "all")));
            observer.one("produce, acks=0", () -> produced(Map.of("acks", "0", "enable.idempotence", "false")));
            observer.one("produce, a transaction", this::transaction);
            observer.one("consume, read_committed", () -> consumed(group) + " records");
            observer.one("listOffsets", () -> "" + admin.listOffsets(Map.of(partition, OffsetSpec.latest()))
                .partitionResult(partition).get().offset());
            observer.one("deleteRecords", () -> "" + admin.deleteRecords(
                Map.of(partition, RecordsToDelete.beforeOffset(10))).lowWatermarks().get(partition).get().lowWatermark());
            observer.one("listGroups", () -> own(admin.listGroups().all().get().stream()
                .map(GroupListing::groupId).toList()) + "");
            observer.one("describeConsumerGroups", () -> admin.describeConsumerGroups(List.of(group)).all().get()
                .get(group).groupState() + "");
            observer.one("listConsumerGroupOffsets", () -> "" + offset(admin, group));
            observer.one("alterConsumerGroupOffsets", () -> "" + admin.alterConsumerGroupOffsets(group,
                Map.of(partition, new OffsetAndMetadata(7))).all().get());
            observer.one("deleteConsumerGroups", () -> "" + admin.deleteConsumerGroups(List.of(group)).all().get());
            observer.one("createAcls", () -> "" + admin.createAcls(List.of(acl)).all().get());
            observer.one("describeAcls", () -> eventually("nobody",
                () -> "" + admin.describeAcls(acl.toFilter()).values().get()));
            observer.one("deleteAcls", () -> admin.deleteAcls(List.<AclBindingFilter>of(acl.toFilter())).all().get()
                .size() + "");
            observer.one("electLeaders", () -> "" + admin.electLeaders(ElectionType.PREFERRED, Set.of(partition))
                .partitions().get().get(partition).map(Observer::described));
            observer.one("listPartitionReassignments", () -> "" + admin.listPartitionReassignments().reassignments().get());
            observer.one("describeLogDirs", () -> "" + admin.describeLogDirs(List.of(1)).allDescriptions().get()
                .get(1).values().iterator().next().replicaInfos().containsKey(partition));
            observer.one("describeProducers", () -> admin.describeProducers(List.of(partition)).all().get()
                .get(partition).activeProducers().size() + "");
            observer.one("describeMetadataQuorum", () -> "leader " + admin.describeMetadataQuorum().quorumInfo().get()
                .leaderId());
            observer.one("describeFeatures", () -> "" + new TreeSet<>(admin.describeFeatures().featureMetadata().get()
                .finalizedFeatures().keySet()));
            observer.one("describeUserScramCredentials",
                () -> admin.describeUserScramCredentials().all().get().size() + "");
            observer.one("listTransactions", () -> admin.listTransactions().all().get().size() >= 0 ? "listed" : "");
        }
    }

    /** Asks until the answer contains a text, or the time is over: brokers learn of changes late. */
    static String eventually(String text, Observer.Request request) throws Exception {
        long deadline = System.nanoTime() + Duration.ofSeconds(SECONDS).toNanos();
        while (true) {
            try {
                String seen = request.send();
                if (seen.contains(text) || System.nanoTime() > deadline) {
                    return seen;
                }
            } catch (ExecutionException e) {
                if (System.nanoTime() > deadline) {
                    throw e;
                }
            }
            Thread.sleep(POLL_MS);
        }
    }

    private long offset(Admin admin, String group) throws Exception {
        return admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(partition).offset();
    }

    private Collection<String> own(Collection<String> names) {
        return new TreeSet<>(names.stream().filter(each -> each.startsWith(topic)).toList());
    }

    private String produced(Map<String, String> more) throws Exception {
        StringSerializer strings = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(side.properties(user, more), strings, strings)) {
            for (int number = 0; number < RECORDS; number++) {
                producer.send(new ProducerRecord<>(topic, 0, "k", "v" + number));
            }
        }
        return RECORDS + " records";
    }

    private String transaction() throws Exception {
        StringSerializer strings = new StringSerializer();
        Map<String, String> more = Map.of("transactional.id", side.topic("transaction"));
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(side.properties(user, more), strings, strings)) {
            producer.initTransactions();
            for (boolean commit : new boolean[] {true, false}) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, "k", commit ? "committed" : "aborted")).get();
                if (commit) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
        return "one committed, one aborted";
    }

    private int consumed(String group) {
        Map<String, String> more = Map.of("group.id", group, "auto.offset.reset", "earliest",
            "isolation.level", "read_committed", "enable.auto.commit", "false");
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        StringDeserializer strings = new StringDeserializer();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(side.properties(user, more), strings, strings)) {
            consumer.subscribe(List.of(topic));
            long deadline = System.nanoTime() + Duration.ofSeconds(SECONDS).toNanos();
            while (records.size() < 2 * RECORDS + 1 && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(200)).forEach(records::add);
            }
            consumer.commitSync();
        }
        return records.size();
    }
}
