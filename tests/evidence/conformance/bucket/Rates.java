import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.stats.Rate;

/**
 * The rates that Kafka's own Rate measures: reads lines and writes lines.
 *
 * <p>{@code rate S W} begins a metric; each line {@code AT COST} after it (ms, mutations) is recorded, measured in the
 * same ms, as by a sensor with a quota, and answered by the rate.
 */
public final class Rates {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        Rate rate = null;
        MetricConfig config = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ");
            if (parts[0].equals("rate")) {
                rate = new Rate();
                config = new MetricConfig()
                        .samples(Integer.parseInt(parts[1]))
                        .timeWindow(Long.parseLong(parts[2]), TimeUnit.SECONDS);
            } else {
                long at = Long.parseLong(parts[0]);
                rate.record(config, Double.parseDouble(parts[1]), at);
                System.out.println(rate.measure(config, at));
            }
        }
    }
}
