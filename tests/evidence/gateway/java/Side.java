import java.util.Map;
import java.util.Properties;

/** The address and the users of a program: the arguments NAME ADDRESS FIRST_USER. */
record Side(String name, String address, int firstUser) {

    static Side of(String[] args) {
        return new Side(args[0], args[1], Integer.parseInt(args[2]));
    }

    String user(int number) {
        return String.format("%s-%03d", name, number);
    }

    String topic(String name) {
        return this.name + "-" + name;
    }

    /** The properties of a client that authenticates by PLAIN. */
    Properties properties(int user, Map<String, String> more) {
        return properties(user(user), user(user) + "-secret", "PLAIN", more);
    }

    Properties properties(String user, String password, String mechanism, Map<String, String> more) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", address);
        properties.put("security.protocol", "SASL_PLAINTEXT");
        properties.put("sasl.mechanism", mechanism);
        String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        properties.put("sasl.jaas.config", "org.apache.kafka.common.security." + module
            + " required username=\"" + user + "\" password=\"" + password + "\";");
        properties.putAll(more);
        return properties;
    }

}
