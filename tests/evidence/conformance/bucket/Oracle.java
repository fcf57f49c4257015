import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.internals.AppInfoParser;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaManager.UserEntity;
import org.apache.kafka.server.quota.ControllerMutationQuota;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;

/**
 * The decisions of a KRaft controller, by its own classes under a manual clock: reads lines and writes lines.
 *
 * <p>A sequence has a separate user, and begins with {@code S W start plain|modelled}; {@code end} plays it. Each
 * line between is a step with its time after the previous step in ms (negative: the clock steps back;
 * {@code throttle+N}: N ms after the throttle time of the last try).
 *
 * <ul>
 *   <li>{@code try WAIT strict|permissive COST...} is answered by the time, the tokens before and after, the throttle
 *       time in ms and a letter a topic: A admitted, R rejected, F rejected for a debt within rounding.
 *   <li>{@code quota WAIT RATE|none} and {@code expire WAIT} are answered by the time.
 * </ul>
 *
 * <p>{@code plain} is Kafka as it is. {@code modelled} is Kafka without the differences that change the outcome of
 * later steps: where its clock would step back before the last write of the bucket, it stands still and goes on from
 * there; its metric is read (which fills the bucket) just before a quota changes; and a debt within rounding for which
 * it has just rejected is paid off, and the topic tried again.
 */
public final class Oracle {
    private static final double ROUNDING_ABSOLUTE = 1e-9; // differences-from-kafka.md and the rules of the bucket
    private static final double ROUNDING_RELATIVE = 1e-12;

    public static void main(String[] args) {
        try {
            serve();
            System.exit(0); // the quota managers' threads would go on
        } catch (Exception failed) {
            failed.printStackTrace();
            System.exit(1);
        }
    }

    private static void serve() throws Exception {
        PrintStream out = new PrintStream(System.out, false);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        Map<String, Controller> controllers = new HashMap<>();
        out.println(AppInfoParser.getVersion());
        out.flush();
        int sequences = 0;
        for (String header = in.readLine(); header != null; header = in.readLine()) {
            String[] parts = header.split(" ");
            List<String> steps = new ArrayList<>(); // all of them first, so that no pipe is full on both sides
            for (String line = in.readLine(); !line.equals("end"); line = in.readLine()) {
                steps.add(line);
            }
            Controller controller = controllers.computeIfAbsent(parts[0] + " " + parts[1], Controller::new);
            boolean modelled = parts[3].equals("modelled");
            Bucket bucket = new Bucket(controller, "user-" + sequences++, Long.parseLong(parts[2]), modelled);
            for (String step : steps) {
                out.println(bucket.play(step.split(" ")));
            }
            out.flush();
        }
    }

    private static final class Clock implements Time {
        private long now;

        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadline) {
            throw new UnsupportedOperationException();
        }
    }

    /** The quota manager of a controller, as kafka.server.QuotaFactory makes it. */
    private static final class Controller {
        private final Clock clock = new Clock();
        private final Metrics metrics = new Metrics(new MetricConfig(), new ArrayList<>(), clock, false);
        private final ControllerMutationQuotaManager manager;

        Controller(String window) {
            String[] parts = window.split(" ");
            int num = Integer.parseInt(parts[0]);
            ClientQuotaManagerConfig config = new ClientQuotaManagerConfig(num, Integer.parseInt(parts[1]));
            manager = new ControllerMutationQuotaManager(config, metrics, clock, "oracle", Optional.empty());
        }
    }

    private static final class Bucket {
        private static final String THROTTLE = "throttle";

        private final Controller controller;
        private final String user;
        private final Session session;
        private final boolean modelled;
        private long now;
        private long latest;
        private long changedAt = Long.MIN_VALUE; // no step goes back before a change of the quota: Kafka's quota has no past
        private long writtenAt;
        private long setBack; // how far the clock is behind that of the modelled controller
        private double written;
        private String rate = "none";
        private boolean changed; // so that the next try writes the bucket, rejected or not
        private int throttleTime;

        Bucket(Controller controller, String user, long start, boolean modelled) throws Exception {
            this.controller = controller;
            this.user = user;
            this.session = new Session(new KafkaPrincipal("User", user), InetAddress.getLoopbackAddress());
            this.modelled = modelled;
            this.now = this.latest = start;
        }

        String play(String[] step) {
            boolean change = step[0].equals("quota");
            now += step[1].startsWith(THROTTLE)
                    ? throttleTime + Long.parseLong(step[1].substring(THROTTLE.length()))
                    : Long.parseLong(step[1]);
            now = Math.max(now, change ? latest : changedAt);
            latest = Math.max(latest, now);
            if (modelled && step[0].equals("try")) {
                setBack = Math.max(setBack, writtenAt - now);
            }
            controller.clock.now = modelled ? now + setBack : now;
            if (change) {
                change(step[2]);
            } else if (step[0].equals("expire")) {
                expire();
            } else {
                return now + " " + attempt(step);
            }
            return Long.toString(now);
        }

        private void change(String rate) {
            if (modelled && metric() != null) {
                tokens();
            }
            Optional<Quota> quota =
                    rate.equals("none") ? Optional.empty() : Optional.of(Quota.upperBound(Double.parseDouble(rate)));
            controller.manager.updateQuota(Optional.of(new UserEntity(user)), Optional.empty(), quota);
            changedAt = metric() == null ? changedAt : now;
            changed |= !rate.equals(this.rate);
            this.rate = rate;
        }

        private String attempt(String[] step) {
            boolean strict = step[2].equals("strict");
            ControllerMutationQuota quota = strict
                    ? controller.manager.newStrictQuotaFor(session, "")
                    : controller.manager.newPermissiveQuotaFor(session, "");
            double before = tokens();
            if (metric() == null) {
                throw new IllegalStateException("no metric of " + user);
            }
            StringBuilder verdicts = new StringBuilder();
            for (int i = 3; i < step.length; i++) {
                verdicts.append(charge(quota, Double.parseDouble(step[i])));
            }
            double after = tokens();
            if (changed || verdicts.indexOf("A") >= 0 || verdicts.indexOf("F") >= 0) {
                writtenAt = controller.clock.now;
                written = after;
                changed = false;
            }
            throttleTime = quota.throttleTime();
            return before + " " + after + " " + throttleTime + " " + verdicts;
        }

        private char charge(ControllerMutationQuota quota, double cost) {
            try {
                quota.record(cost);
                return 'A';
            } catch (ThrottlingQuotaExceededException rejected) {
                double debt = -tokens();
                if (!modelled || debt > ROUNDING_ABSOLUTE + ROUNDING_RELATIVE * Math.abs(written)) {
                    return 'R';
                }
                sensor().record(-debt, controller.clock.now, false);
                quota.record(cost);
                return 'F';
            }
        }

        /** Does what Metrics.ExpireSensorTask does every 30 seconds in a controller. */
        private void expire() {
            if (sensor().hasExpired()) {
                controller.metrics.removeSensor(sensor().name());
            }
        }

        private Sensor sensor() {
            return controller.manager.getOrCreateQuotaSensors(session, "").quotaSensor();
        }

        private double tokens() {
            return (double) metric().metricValue();
        }

        private KafkaMetric metric() {
            Map<String, String> tags = Map.of("user", user, "client-id", "");
            return controller.metrics.metric(
                    controller.metrics.metricName("tokens", "ControllerMutation", "", tags));
        }
    }
}
