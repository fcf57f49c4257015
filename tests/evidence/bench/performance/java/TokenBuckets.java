package bench;

import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.get_json_object;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.function.FlatMapGroupsWithStateFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.GroupState;
import org.apache.spark.sql.streaming.GroupStateTimeout;
import org.apache.spark.sql.streaming.OutputMode;
import scala.Tuple2;

/**
 * KIP-599's token bucket with flatMapGroupsWithState, as a user of Spark writes it: each user's bucket has one quota.
 *
 * <p>It admits the same requests as enforce, without what enforce has besides: quotas and callbacks that change,
 * repeated requests, clocks that are set back, dead letters (an invalid record ends this query), and explanations.
 */
public final class TokenBuckets
        implements FlatMapGroupsWithStateFunction<String, Row, TokenBuckets.Bucket, Tuple2<byte[], byte[]>> {
    private static final ObjectMapper JSON = new ObjectMapper()
        .setPropertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
        .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);
    private static final Map<String, Integer> STRICT_SINCE =
        Map.of("CREATE_TOPICS", 6, "CREATE_PARTITIONS", 3, "DELETE_TOPICS", 5);
    private static final double ROUNDING = 1e-9;
    private static final int THROTTLING_QUOTA_EXCEEDED = 89;

    private final double rate;
    private final double burst;

    private TokenBuckets(double rate, double burst) {
        this.rate = rate;
        this.burst = burst;
    }

    /** Decides records of requests by one quota for each user; returns the keys and values of the decisions. */
    public static Dataset<Row> decided(Dataset<Row> records, double rate, double burst) {
        Dataset<Row> ofUsers = records.withColumn("user", get_json_object(col("value").cast("string"), "$.user"));
        return ofUsers.groupBy("user")
            .as(Encoders.STRING(), Encoders.row(ofUsers.schema()))
            .flatMapGroupsWithState(
                new TokenBuckets(rate, burst),
                OutputMode.Append(),
                Encoders.bean(Bucket.class),
                Encoders.tuple(Encoders.BINARY(), Encoders.BINARY()),
                GroupStateTimeout.NoTimeout())
            .toDF("key", "value");
    }

    @Override
    public Iterator<Tuple2<byte[], byte[]>> call(String user, Iterator<Row> records, GroupState<Bucket> state)
            throws IOException {
        List<Row> ordered = new ArrayList<>();
        records.forEachRemaining(ordered::add);
        ordered.sort(Comparator.comparing((Row record) -> record.<Long>getAs("timestamp"))
            .thenComparing(record -> record.<Integer>getAs("partition"))
            .thenComparing(record -> record.<Long>getAs("offset")));
        Bucket bucket = state.exists() ? state.get() : null;
        List<Tuple2<byte[], byte[]>> decisions = new ArrayList<>(ordered.size());
        for (Row record : ordered) {
            long now = record.<Long>getAs("timestamp");
            if (bucket == null) {
                bucket = new Bucket(burst, now);
            }
            Request request = JSON.readValue(record.<byte[]>getAs("value"), Request.class);
            Decision decision = decide(bucket, request, now);
            decisions.add(new Tuple2<>(record.getAs("key"), JSON.writeValueAsBytes(decision)));
        }
        state.update(bucket);
        return decisions.iterator();
    }

    /** Charges a request at {@code now} (epoch ms); one that is rejected leaves the bucket as it is. */
    private Decision decide(Bucket bucket, Request request, long now) {
        double gained = Math.max(now - bucket.updatedAt, 0) / 1000.0 * rate;
        double before = Math.min(bucket.tokens + gained, burst);
        double tokens = before;
        boolean strict = request.apiVersion >= STRICT_SINCE.get(request.operation) && !request.validateOnly;
        List<TopicDecision> topics = new ArrayList<>(request.topics.size());
        int admitted = 0;
        for (Topic topic : request.topics) {
            boolean admits = !strict || tokens >= -ROUNDING;
            if (admits) {
                admitted++;
                tokens -= request.validateOnly ? 0 : topic.partitions;
            }
            topics.add(new TopicDecision(topic.name, topic.partitions, admits ? 0 : THROTTLING_QUOTA_EXCEEDED));
        }
        if (tokens != before) {
            bucket.tokens = tokens;
            bucket.updatedAt = Math.max(now, bucket.updatedAt);
        }
        boolean throttles = !request.validateOnly && tokens < -ROUNDING && (!strict || admitted < topics.size());
        long throttle = throttles ? (long) Math.ceil(-tokens / rate * 1000) : 0;
        String outcome = admitted == topics.size() ? "ADMITTED" : admitted > 0 ? "PARTIAL" : "REJECTED";
        return new Decision(request.requestId, request.user, request.clientId, request.operation, strict, outcome, topics,
            throttle, now + throttle, rate, burst, before, tokens, now);
    }

    private record Topic(String name, int partitions) {}

    private record Request(String requestId, String user, String clientId, String operation, int apiVersion,
        boolean validateOnly, List<Topic> topics) {}

    private record TopicDecision(String name, int partitions, int errorCode) {}

    private record Decision(String requestId, String user, String clientId, String operation, boolean strict,
        String outcome, List<TopicDecision> topics, long throttleTimeMs, long retryAt, double quota, double burst,
        double tokensBefore, double tokens, long timestamp) {}

    /** The state of a user: K tokens at the time T (epoch ms). */
    public static final class Bucket implements Serializable {
        private double tokens;
        private long updatedAt;

        public Bucket() {}

        private Bucket(double tokens, long updatedAt) {
            this.tokens = tokens;
            this.updatedAt = updatedAt;
        }

        public double getTokens() {
            return tokens;
        }

        public void setTokens(double tokens) {
            this.tokens = tokens;
        }

        public long getUpdatedAt() {
            return updatedAt;
        }

        public void setUpdatedAt(long updatedAt) {
            this.updatedAt = updatedAt;
        }
    }
}
