"""A broker whose clients log in by tokens and are authorized by ACLs, and the token servers that it trusts."""

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient

from jobs.installation import jars_folder
from jobs.sandbox.broker import HOST, JAVA_OPTIONS, Broker, free_port
from quota.kafka.topics.preparation import prepare_topics
from quota.settings import load_settings
from quota.settings.connection import ALLOWED_URLS
from tests.support.broker import Authority, allow, documented_acls, write_keystore
from tests.support.token_server import ISSUER, SCOPE, Signer, TokenServer

_NAMES = ("enforce", "audit", "operator", "applier", "gateway", "tenant", "application")
SECRETS = {name: f'{name}\'s "xyzzy"\\%' for name in _NAMES}
"""The client secrets, with characters that are hard to quote; the principals are those of the documented ACLs, and an
application that is a tenant and may create topics of its own."""

# The tests' own listener is anonymous, and permits everything.
_PROPERTIES = """\
listeners=PLAINTEXT://{{host}}:{{port}},SASL_SSL://{{host}}:{tokens_port},CONTROLLER://{{host}}:{{controller_port}}
advertised.listeners=PLAINTEXT://{{host}}:{{port}},SASL_SSL://{{host}}:{tokens_port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=OAUTHBEARER
connections.max.reauth.ms=3600000
listener.name.sasl_ssl.oauthbearer.sasl.jaas.config=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class=\
org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler
sasl.oauthbearer.jwks.endpoint.url={jwks_url}
sasl.oauthbearer.expected.audience={audience}
sasl.oauthbearer.expected.issuer={issuer}
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=false
super.users=User:ANONYMOUS
"""


@dataclass(frozen=True, slots=True)
class TokenBroker:
    """The broker, and two token servers with the same clients and the same key."""

    broker: Broker
    address: str
    """The address of the listener that accepts tokens."""
    authority: Authority
    plain: TokenServer
    """Speaks HTTP; the broker has its keys from here."""
    tls: TokenServer
    """Speaks HTTPS, with a certificate of the authority."""
    folder: Path

    def options(self, user: str, server: TokenServer | None = None, **more: object) -> list[str]:
        """Return the settings by which a client connects; `more` are other keys of `kafka`."""
        secret = self.folder / f"secret-of-{user}"
        secret.write_text(f"{SECRETS[user]}\n")
        used = server or self.tls
        named = {
            "bootstrap_servers": self.address,
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_token_endpoint_url": used.url,
            "sasl_oauthbearer_client_id": user,
            "sasl_oauthbearer_client_secret": f"file:{secret}",
            "sasl_oauthbearer_scope": SCOPE,
            "ssl_ca_location": self.authority.path,
            **({"sasl_oauthbearer_ca_location": self.authority.path} if used is self.tls else {}),
            **more,
        }
        return [f"storage.root={self.folder}/root", *(f"kafka.{name}={value}" for name, value in named.items())]

    def settings(self, user: str, server: TokenServer | None = None, **more: object):
        """Return the settings of `options`."""
        return load_settings(self.options(user, server, **more), environment={}, with_default_file=False)


@contextmanager
def token_broker(folder: Path, jars: str):
    """Run the broker and the token servers inside the block, with the topics and the documented ACLs."""
    authority = Authority(folder / "certificates")
    certificate = authority.sign("server", HOST)
    keystore = write_keystore(folder / "keystore.pem", certificate)
    signer, port = Signer(folder), free_port()
    with (
        TokenServer(signer, SECRETS) as plain,
        TokenServer(signer, SECRETS, (certificate.path, certificate.key)) as tls,
    ):
        properties = _PROPERTIES.format(
            tokens_port=port, jwks_url=plain.jwks_url, audience=SCOPE, issuer=ISSUER, keystore=keystore
        )
        with Broker(
            folder / "broker",
            jars_folder(jars),
            extra_properties=properties,
            java_options=[*JAVA_OPTIONS, f"-D{ALLOWED_URLS}={plain.jwks_url}"],
        ) as broker:
            prepare_topics(load_settings([f"kafka.bootstrap_servers={broker.address}"], environment={}))
            admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 2})
            acls = documented_acls()
            acls["application"] = [*acls["tenant"], ("TOPIC", "own-", "PREFIXED", "CREATE")]
            for user, allowed in acls.items():
                allow(admin, user, allowed)
            yield TokenBroker(broker, f"{HOST}:{port}", authority, plain, tls, folder)
