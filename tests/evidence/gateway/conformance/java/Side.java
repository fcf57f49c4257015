import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;

/** A side's address, the broker's own address, the users and topics, and a folder for files. */
record Side(String name, String address, String broker, Path folder) {
    private static final String LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule";

    String user(int number) {
        return String.format("%s-%03d", name, number);
    }

    /** A user whose name says what is special about it. */
    String user(String kind) {
        return name + "-" + kind;
    }

    String topic(String topic) {
        return name + "-" + topic;
    }

    Properties properties(int user, Map<String, String> more) {
        return properties(user(user), more);
    }

    /** The properties of a client that authenticates by PLAIN. */
    Properties properties(String user, Map<String, String> more) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", address);
        properties.put("security.protocol", "SASL_PLAINTEXT");
        properties.put("sasl.mechanism", "PLAIN");
        properties.put("sasl.jaas.config",
            LOGIN + " required username=\"" + user + "\" password=\"" + user + "-secret\";");
        properties.putAll(more);
        return properties;
    }

    /** Writes properties to a file, and returns its path. */
    String written(String file, Properties properties) throws Exception {
        Path path = folder.resolve(file);
        try (var writer = Files.newBufferedWriter(path)) {
            properties.store(writer, null);
        }
        return path.toString();
    }
}
