import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DeleteTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;

/** The AdminClient. A user's bucket holds 3, so a topic of 11 partitions overdraws it by 8. */
final class AdminCases {
    private static final int FULL_AND_8 = 11;

    private final Side side;

    private AdminCases(Side side) {
        this.side = side;
    }

    static Map<String, Clients.Case> cases(Side side) {
        AdminCases program = new AdminCases(side);
        Map<String, Clients.Case> cases = new LinkedHashMap<>();
        cases.put("create", program::create);
        cases.put("create, with the client's retry", program::createWithRetry);
        cases.put("four topics of 3 in one request", program::several);
        cases.put("four topics of 3, with the client's retry", program::severalWithRetry);
        cases.put("a debt beyond the time limit", program::beyondTheTimeLimit);
        cases.put("grow", program::grow);
        cases.put("delete by name", program::deleteByName);
        cases.put("validateOnly, in debt", program::validateOnly);
        cases.put("validateOnly, with a full bucket", program::validateOnlyCharges);
        cases.put("two clients of a user", program::twoClients);
        cases.put("two client-ids, a quota for each", program::twoClientIds);
        cases.put("without the right to create", program::denied);
        return cases;
    }

    private Admin admin(int user) {
        return Admin.create(side.properties(user, Map.of("client.id", "admin")));
    }

    private void create(Observer observer, int user) throws Exception {
        try (Admin admin = admin(user)) {
            observer.topics("overdrawn by 8", () -> created(admin, true, topic("create-a", FULL_AND_8)));
            observer.topics("in debt, no retry", () -> created(admin, false, topic("create-b", 1)));
            observer.one("another call of this client", () -> admin.describeCluster().nodes().get().size() + " node");
            observer.topics("when it is paid off", () -> created(admin, true, topic("create-b", 1)));
        }
    }

    private void createWithRetry(Observer observer, int user) throws Exception {
        try (Admin admin = admin(user)) {
            observer.topics("overdrawn by 8", () -> created(admin, true, topic("retry-a", FULL_AND_8)));
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
            observer.topics("overdrawn by 8", () -> admin.createPartitions(
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
            observer.topics("overdrawn by 8", () -> admin.deleteTopics(names("delete-a"), once).topicNameValues());
            observer.topics("in debt, no retry, with an unknown one",
                () -> admin.deleteTopics(names("delete-b", "delete-none"), once).topicNameValues());
            observer.topics("in debt", () -> admin.deleteTopics(names("delete-b")).topicNameValues());
        }
    }

    private void validateOnly(Observer observer, int user) throws Exception {
        CreateTopicsOptions options = new CreateTopicsOptions().validateOnly(true).retryOnQuotaViolation(false);
        try (Admin admin = admin(user)) {
            observer.topics("overdrawn by 8", () -> created(admin, true, topic("validate-a", FULL_AND_8)));
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
            observer.topics("one overdraws by 8", () -> created(one, true, topic("clients-a", FULL_AND_8)));
            observer.topics("the other in debt", () -> created(two, false, topic("clients-b", 1)));
        }
    }

    private void twoClientIds(Observer observer, int unused) throws Exception {
        try (Admin one = Admin.create(side.properties(side.user("clients"), Map.of("client.id", "one")));
             Admin two = Admin.create(side.properties(side.user("clients"), Map.of("client.id", "two")));
             Admin again = Admin.create(side.properties(side.user("clients"), Map.of("client.id", "one")))) {
            observer.topics("one overdraws by 8", () -> created(one, true, topic("ids-a", FULL_AND_8)));
            observer.topics("the other has a bucket of its own", () -> created(two, false, topic("ids-b", 1)));
            observer.topics("another connection of the first", () -> created(again, false, topic("ids-c", 1)));
        }
    }

    private void denied(Observer observer, int unused) throws Exception {
        try (Admin admin = Admin.create(side.properties(side.user("denied"), Map.of()))) {
            observer.topics("more than the bucket holds", () -> created(admin, false, topic("denied", FULL_AND_8)));
            observer.topics("is not charged: grow", () -> admin.createPartitions(
                Map.of(side.topic("denied-grow"), NewPartitions.increaseTo(2)),
                new CreatePartitionsOptions().retryOnQuotaViolation(false)).values());
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
