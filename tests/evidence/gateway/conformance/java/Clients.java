import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * Runs programs on both sides, all cases at once and each as a separate user, and writes their observations as lines of
 * JSON. A program is a class with a method `cases(Side)`.
 *
 * Arguments: FOLDER BROKER GATEWAY PROGRAM=FIRST_USER ...; BROKER and GATEWAY are addresses.
 */
public final class Clients {
    private Clients() { }

    /** A case, which a user with a full bucket runs. */
    interface Case {
        void run(Observer observer, int user) throws Exception;
    }

    public static void main(String[] args) {
        try {
            for (Future<Observer> each : started(args)) {
                each.get().print();
            }
            System.exit(0);
        } catch (Exception e) {
            e.printStackTrace();
            System.exit(1);
        }
    }

    private static List<Future<Observer>> started(String[] args) throws Exception {
        ExecutorService pool = Executors.newCachedThreadPool();
        List<Future<Observer>> running = new ArrayList<>();
        for (String argument : List.of(args).subList(3, args.length)) {
            String[] program = argument.split("=");
            Method cases = Class.forName(program[0]).getDeclaredMethod("cases", Side.class);
            for (String name : List.of("direct", "gateway")) {
                Path folder = Files.createDirectories(Path.of(args[0], program[0] + "-" + name));
                Side side = new Side(name, name.equals("direct") ? args[1] : args[2], args[1], folder);
                int user = Integer.parseInt(program[1]);
                for (Map.Entry<?, ?> each : ((Map<?, ?>) cases.invoke(null, side)).entrySet()) {
                    Observer observer = new Observer(program[0], name, (String) each.getKey());
                    Case body = (Case) each.getValue();
                    int own = user++;
                    running.add(pool.submit(() -> {
                        body.run(observer, own);
                        return observer;
                    }));
                }
            }
        }
        return running;
    }
}
