import java.io.IOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import kafka.network.SocketServer;
import kafka.server.QuotaFactory.QuotaManagers;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.config.SaslConfigs;
import org.apache.kafka.common.message.SaslAuthenticateRequestData;
import org.apache.kafka.common.message.SaslHandshakeRequestData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.SaslAuthenticateRequest;
import org.apache.kafka.common.requests.SaslAuthenticateResponse;
import org.apache.kafka.common.requests.SaslHandshakeRequest;
import org.apache.kafka.common.requests.SaslHandshakeResponse;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;

/** Kafka's tests that start their brokers by a harness; their clients get the addresses of gateways. */
public final class AtGateway {
    private AtGateway() { }

    public static class Admins extends kafka.api.PlaintextAdminIntegrationTest {
        @Override
        public String bootstrapServers(ListenerName listener) {
            return Gateways.inFrontOf(super.bootstrapServers(listener));
        }
    }

    public static class Creations extends kafka.server.CreateTopicsRequestTest {
        @Override
        public String bootstrapServers(ListenerName listener) {
            return Gateways.inFrontOf(super.bootstrapServers(listener));
        }

        @Override
        public Socket connect(SocketServer server, ListenerName listener) {
            return socketTo(server.boundPort(listener), super.bootstrapServers(listenerName()));
        }
    }

    public static class Deletions extends kafka.server.DeleteTopicsRequestTest {
        @Override
        public String bootstrapServers(ListenerName listener) {
            return Gateways.inFrontOf(super.bootstrapServers(listener));
        }

        @Override
        public Socket connect(SocketServer server, ListenerName listener) {
            return socketTo(server.boundPort(listener), super.bootstrapServers(listenerName()));
        }
    }

    /**
     * KIP-599's own test. At the broker a principal builder makes each connection that of `principal`; the gateway knows
     * users by their login, so connections to it log in as that user. The test waits until the broker has a quota; here
     * it waits until the gateway describes it.
     */
    public static class Mutations extends kafka.server.ControllerMutationQuotaTest {
        private static final String PASSWORD = "secret";

        private boolean asksGateway;

        @Override
        public SecurityProtocol securityProtocol() {
            return Gateways.areUsed() ? SecurityProtocol.SASL_PLAINTEXT : super.securityProtocol();
        }

        @Override
        public void brokerPropertyOverrides(Properties properties) {
            super.brokerPropertyOverrides(properties);
            properties.put("sasl.enabled.mechanisms", "PLAIN");
            properties.put("sasl.mechanism.inter.broker.protocol", "PLAIN");
            properties.put("listener.name.sasl_plaintext.plain.sasl.jaas.config", jaas(
                "user_admin=\"secret\" user_ANONYMOUS=\"secret\" user_ThrottledPrincipal=\"secret\" user_UnboundedPrincipal=\"secret\""));
        }

        @Override
        public Option<Properties> clientSaslProperties() {
            Properties properties = new Properties();
            properties.put(SaslConfigs.SASL_MECHANISM, "PLAIN");
            properties.put(SaslConfigs.SASL_JAAS_CONFIG, jaas(""));
            return Option.apply(properties);
        }

        private static String jaas(String users) {
            return "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"admin\" password=\"secret\" "
                + users + ";";
        }

        @Override
        public Socket connect(SocketServer server, ListenerName listener) {
            if (!Gateways.areUsed()) {
                return super.connect(server, listener);
            }
            String brokers = bootstrapServers(listenerName());
            if (!asksGateway) {
                asksGateway = true;
                askGatewayForQuotas(Gateways.inFrontOf(brokers, securityProtocol()));
            }
            Socket socket = socketTo(server.boundPort(listener), brokers); // its gateway is open by now
            var handshake = new SaslHandshakeRequestData().setMechanism("PLAIN");
            call(socket, new SaslHandshakeRequest.Builder(handshake).build(), SaslHandshakeResponse.class);
            String user = kafka.server.ControllerMutationQuotaTest.principal().getName();
            byte[] login = ("\0" + user + "\0" + PASSWORD).getBytes(StandardCharsets.UTF_8);
            var authenticate = new SaslAuthenticateRequestData().setAuthBytes(login);
            call(socket, new SaslAuthenticateRequest.Builder(authenticate).build(), SaslAuthenticateResponse.class);
            return socket;
        }

        private <T extends AbstractResponse> T call(Socket socket, AbstractRequest request, Class<T> response) {
            return sendAndReceive(request, socket, "login", Option.empty(), ClassTag.apply(response));
        }

        private void askGatewayForQuotas(String gateway) {
            CollectionConverters.asJava(brokerServers()).forEach(broker -> broker.quotaManagers_$eq(asking(broker.quotaManagers(), gateway)));
            CollectionConverters.asJava(controllerServers()).forEach(controller -> controller.quotaManagers_$eq(asking(controller.quotaManagers(), gateway)));
        }

        private static QuotaManagers asking(QuotaManagers all, String gateway) {
            return new QuotaManagers(all.fetch(), all.produce(), all.request(), new GatewayQuotas(gateway, jaas("")), all.leader(),
                all.follower(), all.alterLogDirs(), all.clientQuotaCallbackPlugin());
        }
    }

    /** The quotas of users as a gateway describes them. */
    private static final class GatewayQuotas extends ControllerMutationQuotaManager {
        private final Map<String, Object> client;

        GatewayQuotas(String gateway, String jaas) {
            super(new ClientQuotaManagerConfig(), new Metrics(), Time.SYSTEM, "", Optional.empty());
            client = Map.of("bootstrap.servers", gateway, "security.protocol", "SASL_PLAINTEXT",
                SaslConfigs.SASL_MECHANISM, "PLAIN", SaslConfigs.SASL_JAAS_CONFIG, jaas);
        }

        @Override
        public Quota quota(String user, String clientId) {
            try (Admin admin = Admin.create(client)) {
                var filter = ClientQuotaFilter.containsOnly(List.of(ClientQuotaFilterComponent.ofEntity("user", user)));
                double rate = admin.describeClientQuotas(filter).entities().get().values().stream()
                    .map(quotas -> quotas.get("controller_mutation_rate"))
                    .filter(java.util.Objects::nonNull).findFirst().orElse((double) Long.MAX_VALUE);
                return new Quota(rate, true);
            } catch (InterruptedException | ExecutionException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    /** Returns a socket to the gateway of the broker at a port, or of the first broker if the port is a controller's. */
    private static Socket socketTo(int port, String brokers) {
        String wanted = List.of(brokers.split(",")).stream()
            .filter(broker -> broker.endsWith(":" + port)).findFirst().orElse(brokers.split(",")[0]);
        String[] address = Gateways.areUsed() ? Gateways.inFrontOf(wanted).split(":") : new String[] {"localhost", "" + port};
        try {
            return new Socket(address[0], Integer.parseInt(address[1]));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }
}
