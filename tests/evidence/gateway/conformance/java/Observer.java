import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;

/** Keeps the observations of a case's requests, and writes them as lines of JSON. */
final class Observer {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String program;
    private final String side;
    private final String name;
    private final List<Map<String, Object>> seen = new ArrayList<>();

    Observer(String program, String side, String name) {
        this.program = program;
        this.side = side;
        this.name = name;
    }

    /** A request, which returns its outcome in words. */
    interface Request {
        String send() throws Exception;
    }

    /** A request with a future for each topic. */
    interface TopicsRequest {
        Map<?, ? extends Future<?>> send() throws Exception;
    }

    /** Sends a request that has one outcome. */
    void one(String step, Request request) throws InterruptedException {
        double sent = now();
        Integer told = null;
        String outcome;
        try {
            outcome = request.send();
        } catch (InterruptedException e) {
            throw e;
        } catch (Exception e) {
            Throwable error = e instanceof ExecutionException ? e.getCause() : e;
            outcome = described(error);
            told = throttle(error);
        }
        add(step, outcome, sent, told, "");
    }

    /** Sends a request for several topics. */
    void topics(String step, TopicsRequest request) throws Exception {
        double sent = now();
        Integer told = null;
        Map<String, String> outcomes = new TreeMap<>();
        for (Map.Entry<?, ? extends Future<?>> each : request.send().entrySet()) {
            String topic = each.getKey().toString();
            try {
                each.getValue().get();
                outcomes.put(topic, "ok");
            } catch (ExecutionException e) {
                outcomes.put(topic, described(e.getCause()));
                Integer throttle = throttle(e.getCause());
                told = told == null || throttle != null && throttle > told ? throttle : told;
            }
        }
        StringBuilder text = new StringBuilder();
        outcomes.forEach((topic, outcome) -> text.append(text.isEmpty() ? "" : "; ").append(topic + ": " + outcome));
        add(step, text.toString(), sent, told, "");
    }

    /** Prints a line for each observation. */
    void print() throws JsonProcessingException {
        for (Map<String, Object> each : seen) {
            System.out.println(JSON.writeValueAsString(each));
        }
    }

    /** Adds a request that has just been answered; details are compared, but not shown. */
    void add(String step, String outcome, double sent, Integer told, String detail) {
        add(step, outcome, sent, now(), told, detail);
    }

    void add(String step, String outcome, double sent, double received, Integer told, String detail) {
        Map<String, Object> record = new LinkedHashMap<>();
        record.put("program", program);
        record.put("side", side);
        record.put("case", name);
        record.put("step", step);
        record.put("seen", outcome);
        record.put("sent", sent);
        record.put("received", received);
        record.put("throttle_ms", told);
        record.put("detail", detail);
        seen.add(record);
    }

    static double now() {
        return System.nanoTime() / 1e6;
    }

    /** An error without the times in its message. */
    static String described(Throwable error) {
        String message = String.valueOf(error.getMessage()).replaceAll("[0-9]{5,}", "N");
        return error.getClass().getSimpleName() + ": " + message;
    }

    private static Integer throttle(Throwable error) {
        return error instanceof ThrottlingQuotaExceededException e ? e.throttleTimeMs() : null;
    }
}
