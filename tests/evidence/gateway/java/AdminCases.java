import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.DeleteTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.Uuid;

/**
 * Observations of the AdminClient. A user's bucket holds 3 at a rate of 1/s, so a topic of 11 partitions overdraws it
 * by 8 s.
 *
 * Arguments: NAME ADDRESS FIRST_USER SCRAM_USER DENIED_USER CLIENTS_USER.
 */
public final class AdminCases {
    private static final int FULL_AND_8 = 11;

    private final Side side;
    private final int scramUser;
    private final int deniedUser;
    private final int clientsUser;
    private final List<Case> cases = new ArrayList<>();

    private interface Body {
        void run(Observer observer, int user) throws Exception;
    }

    private record Case(String name, Body body) { }

    private AdminCases(String[] args) {
        side = Side.of(args);
        scramUser = Integer.parseInt(args[3]);
        deniedUser = Integer.parseInt(args[4]);
        clientsUser = Integer.parseInt(args[5]);
    }

    /** Runs all cases at once, each as a separate user. */
    public static void main(String[] args) throws Exception {
        AdminCases program = new AdminCases(args);
        program.define();
        ExecutorService pool = Executors.newCachedThreadPool();
        List<Future<Observer>> running = new ArrayList<>();
        for (int number = 0; number < program.cases.size(); number++) {
            Case each = program.cases.get(number);
            int user = program.side.firstUser() + number;
            running.add(pool.submit(() -> {
                Observer observer = new Observer(each.name);
                each.body.run(observer, user);
                return observer;
            }));
        }
        for (Future<Observer> each : running) {
            each.get().print();
        }
        pool.shutdown();
    }

    private void define() {
        cases.add(new Case("create", this::create));
        cases.add(new Case("create, with the client's retry", this::createWithRetry));
        cases.add(new Case("four topics of 3 in one request", this::several));
        cases.add(new Case("four topics of 3, with the client's retry", this::severalWithRetry));
        cases.add(new Case("a debt beyond the time limit", this::beyondTheTimeLimit));
        cases.add(new Case("grow", this::grow));
        cases.add(new Case("delete by name", this::deleteByName));
        cases.add(new Case("delete by id", this::deleteById));
        cases.add(new Case("topics that fail, in debt", this::errors));
        cases.add(new Case("defaults and assignments", this::defaults));
        cases.add(new Case("validateOnly, in debt", this::validateOnly));
        cases.add(new Case("validateOnly, with a full bucket", this::validateOnlyCharges));
        cases.add(new Case("two clients of a user", this::twoClients));
        cases.add(new Case("two client-ids, a quota for each", this::twoClientIds));
        cases.add(new Case("authenticated by SCRAM", this::scram));
        cases.add(new Case("without the right to create", this::denied));
        cases.add(new Case("a wrong password", this::wrongPassword));
        cases.add(new Case("forwarded calls", (observer, user) -> new PassedOn(side, user).run(observer)));
    }

    private Admin admin(int user) {
        return Admin.create(side.properties(user, Map.of("client.id", "admin")));
    }

    private void create(Observer observer, int user) throws Exception {
        try (Admin admin = admin(user)) {
            observer.topics("overdrawn by 8 s", () -> created(admin, true, topic("create-a", FULL_AND_8)));
            observer.topics("in debt, no retry", () -> created(admin, false, topic("create-b", 1)));
            observer.one("another call of this client", () -> admin.describeCluster().nodes().get().size() + " node");
            observer.topics("when it is paid off", () -> created(admin, true, topic("create-b", 1)));
        }
    }

    private void createWithRetry(Observer observer, int user) throws Exception {
        try (Admin admin = admin(user)) {
            observer.topics("overdrawn by 8 s", () -> created(admin, true, topic("retry-a", FULL_AND_8)));
            observer.topics("in debt", () -> created(admin, true, topic("retry-b", 1)));
        }
    }

    private void several(Observer observer, int user) throws Exception {
        try (Admin admin = admin(user)) {
            observer.topics("in one request", () -> created(admin, false, four("several")));
        }
    }

    private void severalWithRetry(Observer observer, int user) throws Exception {
        try (Admin admin = admin(user)) {
            observer.topics("in one request", () -> created(admin, true, four("several-retry")));
        }
    }

    private void beyondTheTimeLimit(Observer observer, int user) throws Exception {
        CreateTopicsOptions options = new CreateTopicsOptions().timeoutMs(6000);
        try (Admin admin = admin(user)) {
            observer.topics("overdrawn by 20 s", () -> created(admin, true, topic("limit-a", 23)));
            observer.topics("with a time limit of 6 s",
                () -> admin.createTopics(List.of(topic("limit-b", 1)), options).values());
        }
    }

    private void grow(Observer observer, int user) throws Exception {
        CreatePartitionsOptions once = new CreatePartitionsOptions().retryOnQuotaViolation(false);
        Map<String, NewPartitions> second = new HashMap<>();
        second.put(side.topic("grow-a"), NewPartitions.increaseTo(2));
        second.put(side.topic("grow-b"), NewPartitions.increaseTo(3));
        second.put(side.topic("grow-none"), NewPartitions.increaseTo(3));
        try (Admin admin = admin(user)) {
            observer.topics("overdrawn by 8 s", () -> admin.createPartitions(
                Map.of(side.topic("grow-a"), NewPartitions.increaseTo(1 + FULL_AND_8)), once).values());
            observer.topics("in debt, no retry, with topics that fail",
                () -> admin.createPartitions(second, once).values());
            observer.topics("in debt", () -> admin.createPartitions(
                Map.of(side.topic("grow-b"), NewPartitions.increaseTo(3))).values());
        }
    }

    private void deleteByName(Observer observer, int user) throws Exception {
        DeleteTopicsOptions once = new DeleteTopicsOptions().retryOnQuotaViolation(false);
        try (Admin admin = admin(user)) {
            observer.topics("overdrawn by 8 s", () -> admin.deleteTopics(names("delete-a"), once).topicNameValues());
            observer.topics("in debt, no retry, with an unknown one",
                () -> admin.deleteTopics(names("delete-b", "delete-none"), once).topicNameValues());
            observer.topics("in debt", () -> admin.deleteTopics(names("delete-b")).topicNameValues());
        }
    }

    private void deleteById(Observer observer, int user) throws Exception {
        DeleteTopicsOptions once = new DeleteTopicsOptions().retryOnQuotaViolation(false);
        try (Admin admin = admin(user)) {
            Map<String, Uuid> ids = new TreeMap<>();
            admin.describeTopics(names("by-id-a", "by-id-b")).allTopicNames().get()
                .forEach((name, described) -> ids.put(name, described.topicId()));
            TopicCollection a = TopicCollection.ofTopicIds(List.of(ids.get(side.topic("by-id-a"))));
            TopicCollection b = TopicCollection.ofTopicIds(List.of(ids.get(side.topic("by-id-b")), Uuid.randomUuid()));
            TopicCollection last = TopicCollection.ofTopicIds(List.of(ids.get(side.topic("by-id-b"))));
            observer.topics("overdrawn by 8 s", () -> admin.deleteTopics(a, once).topicIdValues());
            observer.topics("in debt, no retry, with an unknown one", () -> byKnown(admin.deleteTopics(b, once).topicIdValues(), ids));
            observer.topics("in debt", () -> admin.deleteTopics(last).topicIdValues());
        }
    }

    /** Replaces an id by a text that shows whether it is known. */
    private static Map<String, Future<?>> byKnown(Map<Uuid, ? extends Future<?>> found, Map<String, Uuid> ids) {
        Map<String, Future<?>> named = new TreeMap<>();
        found.forEach((id, future) -> named.put(ids.containsValue(id) ? "an id" : "an unknown id", future));
        return named;
    }

    private void errors(Observer observer, int user) throws Exception {
        NewTopic bad = topic("bad name", 1);
        NewTopic replicas = new NewTopic(side.topic("errors-rf9"), Optional.of(1), Optional.of((short) 9));
        NewTopic config = topic("errors-config", 1).configs(Map.of("no.such.config", "1"));
        NewTopic value = topic("errors-value", 1).configs(Map.of("retention.ms", "long"));
        NewTopic[] all = {topic("errors-a", 1), bad, replicas, config, value, topic("errors-b", 1)};
        try (Admin admin = admin(user)) {
            observer.topics("overdrawn by 8 s", () -> created(admin, true, topic("errors-a", FULL_AND_8)));
            observer.topics("all that can fail", () -> created(admin, false, all));
        }
    }

    private void defaults(Observer observer, int user) throws Exception {
        NewTopic unset = new NewTopic(side.topic("defaults"), Optional.empty(), Optional.empty());
        NewTopic assigned = new NewTopic(side.topic("assigned"), Map.of(0, List.of(1), 1, List.of(1)));
        NewTopic configured = topic("configured", 1).configs(Map.of("retention.ms", "1000"));
        try (Admin admin = admin(user)) {
            for (NewTopic each : List.of(unset, assigned, configured)) {
                observer.one(each.name().substring(side.topic("").length()), () -> metadata(admin, each));
            }
        }
    }

    private static String metadata(Admin admin, NewTopic topic) throws Exception {
        CreateTopicsResult result = admin.createTopics(List.of(topic));
        String name = topic.name();
        return result.numPartitions(name).get() + " partitions, " + result.replicationFactor(name).get() + " replica, "
            + result.config(name).get().entries().size() + " configs, retention "
            + result.config(name).get().get("retention.ms").value() + ", "
            + (result.topicId(name).get().equals(Uuid.ZERO_UUID) ? "no id" : "an id");
    }

    private void validateOnly(Observer observer, int user) throws Exception {
        CreateTopicsOptions options = new CreateTopicsOptions().validateOnly(true).retryOnQuotaViolation(false);
        try (Admin admin = admin(user)) {
            observer.topics("overdrawn by 8 s", () -> created(admin, true, topic("validate-a", FULL_AND_8)));
            observer.topics("validate", () -> admin.createTopics(List.of(topic("validate-b", 1)), options).values());
        }
    }

    private void validateOnlyCharges(Observer observer, int user) throws Exception {
        CreateTopicsOptions options = new CreateTopicsOptions().validateOnly(true).retryOnQuotaViolation(false);
        try (Admin admin = admin(user)) {
            observer.topics("validate 11",
                () -> admin.createTopics(List.of(topic("free-a", FULL_AND_8)), options).values());
            observer.topics("create", () -> created(admin, false, topic("free-b", 1)));
        }
    }

    private void twoClients(Observer observer, int user) throws Exception {
        try (Admin one = admin(user); Admin two = Admin.create(side.properties(user, Map.of("client.id", "another")))) {
            observer.topics("one overdraws by 8 s", () -> created(one, true, topic("clients-a", FULL_AND_8)));
            observer.topics("the other in debt", () -> created(two, false, topic("clients-b", 1)));
        }
    }

    private void twoClientIds(Observer observer, int unused) throws Exception {
        try (Admin one = Admin.create(side.properties(clientsUser, Map.of("client.id", "one")));
             Admin two = Admin.create(side.properties(clientsUser, Map.of("client.id", "two")));
             Admin again = Admin.create(side.properties(clientsUser, Map.of("client.id", "one")))) {
            observer.topics("one overdraws by 8 s", () -> created(one, true, topic("ids-a", FULL_AND_8)));
            observer.topics("the other has a bucket of its own", () -> created(two, false, topic("ids-b", 1)));
            observer.topics("another connection of the first", () -> created(again, false, topic("ids-c", 1)));
        }
    }

    private void scram(Observer observer, int unused) throws Exception {
        String user = side.user(scramUser);
        try (Admin admin = Admin.create(side.properties(user, user + "-scram", "SCRAM-SHA-256", Map.of()))) {
            observer.topics("overdrawn by 8 s", () -> created(admin, true, topic("scram-a", FULL_AND_8)));
            observer.topics("in debt, no retry", () -> created(admin, false, topic("scram-b", 1)));
        }
    }

    private void denied(Observer observer, int unused) throws Exception {
        try (Admin admin = admin(deniedUser)) {
            observer.topics("more than the bucket holds", () -> created(admin, false, topic("denied", FULL_AND_8)));
            observer.topics("is not charged: grow", () -> admin.createPartitions(
                Map.of(side.topic("denied-grow"), NewPartitions.increaseTo(2)),
                new CreatePartitionsOptions().retryOnQuotaViolation(false)).values());
        }
    }

    private void wrongPassword(Observer observer, int user) throws Exception {
        try (Admin admin = Admin.create(side.properties(side.user(user), "wrong", "PLAIN", Map.of()))) {
            observer.one("any call", () -> admin.describeCluster().clusterId().get());
        }
    }

    private NewTopic topic(String name, int partitions) {
        return new NewTopic(side.topic(name), Optional.of(partitions), Optional.empty());
    }

    private NewTopic[] four(String name) {
        NewTopic[] topics = new NewTopic[4];
        for (int number = 0; number < topics.length; number++) {
            topics[number] = topic(name + "-" + number, 3);
        }
        return topics;
    }

    private Collection<String> names(String... names) {
        return List.of(names).stream().map(side::topic).toList();
    }

    private static Map<String, ? extends Future<?>> created(Admin admin, boolean retry, NewTopic... topics) {
        return admin.createTopics(List.of(topics), new CreateTopicsOptions().retryOnQuotaViolation(retry)).values();
    }
}
