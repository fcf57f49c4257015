import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.utils.internals.Exit;
import org.apache.kafka.tools.TopicCommand;

/** Runs kafka-topics.sh's main class, and observes its output and its exit code. */
final class TopicCommandCases {
    /** {} is the prefix of the side. A bucket holds 3, so 11 partitions overdraw it by 8. */
    private static final Map<String, List<String>> CASES = new LinkedHashMap<>();

    private static final ThreadLocal<Result> RESULT = new ThreadLocal<>();

    /** Not a command: brokers may learn late of a topic that was created. */
    private static final String AWAIT = "await ";

    static {
        CASES.put("create", List.of(
            "--create --topic {}sh-a --partitions 11",
            "--create --topic {}sh-b --partitions 1",
            "--create --topic {}sh-a --partitions 1 --if-not-exists",
            "--create --topic {}sh-a --partitions 1"));
        CASES.put("alter", List.of(
            "--alter --topic {}sh-grown-a --partitions 12",
            "--alter --topic {}sh-grown-b --partitions 2",
            "--alter --topic {}sh-grown-a --partitions 2",
            "--alter --topic {}sh-none --partitions 2 --if-exists"));
        CASES.put("delete", List.of(
            "--delete --topic {}sh-deleted-a",
            "--delete --topic {}sh-deleted-b",
            "--delete --topic {}sh-none",
            "--delete --topic {}sh-none --if-exists"));
        CASES.put("within the quota", List.of(
            "--create --topic {}sh-c --partitions 2 --config retention.ms=1000",
            AWAIT + "{}sh-c",
            "--describe --topic {}sh-c",
            "--list --topic {}sh-c",
            "--create --topic {}sh-d --replication-factor 9",
            "--create --topic {}sh-e --replica-assignment 1",
            "--describe --topic {}sh-none"));
        System.setOut(Output.OUT.shared());
        System.setErr(Output.ERRORS.shared());
        Exit.setExitProcedure((code, message) -> {
            if (RESULT.get() != null) {
                RESULT.get().end(code);
            }
            throw new Exited();
        });
    }

    /** A line of the client's log, to which another thread may append its own. */
    private static final String THROTTLED =
        "WARN \\[AdminClient \\S+ Connection to node \\S+ is throttled for [0-9]+ ms until timestamp [0-9]+\\R?";

    private TopicCommandCases() { }

    static Map<String, Clients.Case> cases(Side side) {
        Map<String, Clients.Case> cases = new LinkedHashMap<>();
        CASES.forEach((name, commands) -> cases.put(name, (observer, user) -> {
            String config = side.written(user + ".properties", side.properties(user, Map.of()));
            for (String command : commands) {
                if (command.startsWith(AWAIT)) {
                    await(side, user, side.topic(command.substring(AWAIT.length() + "{}".length())));
                } else {
                    run(observer, side, config, command);
                }
            }
        }));
        return cases;
    }

    private static void await(Side side, int user, String topic) throws Exception {
        try (Admin admin = Admin.create(side.properties(user, Map.of("bootstrap.servers", side.broker())))) {
            PassedOn.eventually("leader", () -> admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic)
                .partitions().toString());
        }
    }

    private static void run(Observer observer, Side side, String config, String command) {
        String words = command.replace("{}", side.topic(""));
        String all = "--bootstrap-server " + side.address() + " --command-config " + config + " " + words;
        double sent = Observer.now();
        Result result = new Result();
        RESULT.set(result);
        try {
            TopicCommand.main(all.split(" "));
        } catch (Exited exited) {
            // as each command does
        }
        Output.OUT.leave();
        Output.ERRORS.leave();
        String first = (result.output.isEmpty() ? result.errors : result.output).lines().findFirst().orElse("nothing");
        observer.add(command.replace("{}", ""), "exit " + result.code + ": " + first, sent, null,
            result.output + "\n" + result.errors);
    }

    /** The exit code of a command and its output until then: it catches the error by which it is ended here. */
    private static final class Result {
        private Integer code;
        private String output;
        private String errors;

        Result() {
            Output.OUT.begin();
            Output.ERRORS.begin();
        }

        void end(int exitCode) {
            if (code == null) {
                code = exitCode;
                output = Output.OUT.written();
                errors = Output.ERRORS.written();
            }
        }
    }

    /** A stream of which each case, with the threads that it starts, has its own. */
    private enum Output {
        OUT(System.out), ERRORS(System.err);

        private final PrintStream others;
        private final InheritableThreadLocal<ByteArrayOutputStream> own = new InheritableThreadLocal<>();

        Output(PrintStream others) {
            this.others = others;
        }

        PrintStream shared() {
            return new PrintStream(new OutputStream() {
                @Override
                public void write(int octet) throws IOException {
                    write(new byte[] {(byte) octet}, 0, 1);
                }

                @Override
                public void write(byte[] octets, int from, int count) {
                    OutputStream stream = own.get();
                    try {
                        (stream == null ? others : stream).write(octets, from, count);
                    } catch (IOException e) {
                        throw new IllegalStateException(e);
                    }
                }
            }, true);
        }

        void begin() {
            own.set(new ByteArrayOutputStream());
        }

        /** What was written since the beginning, without ids and times, such as those of a throttled client's log. */
        String written() {
            return own.get().toString().replaceAll(THROTTLED, "")
                .replaceAll("TopicId: \\S+", "TopicId: ID").replaceAll("[0-9]{8,}", "N").strip();
        }

        void leave() {
            own.remove();
        }
    }

    private static final class Exited extends Error {
        private static final long serialVersionUID = 1L;
    }
}
