"""The security of the target cluster: which keys it has from `[kafka]`, and which it must not have."""

import pytest

from quota.errors import BadInput
from quota.settings import load_settings
from quota.settings.listing import listed_settings
from quota.settings.loading import load_with_origins
from quota.settings.security.clients import Security
from tests.support.broker import CERTIFICATE_PEM

KAFKA = [
    "kafka.security_protocol=SASL_SSL",
    "kafka.sasl_mechanism=PLAIN",
    "kafka.sasl_username=alice",
    "kafka.sasl_password=of-alice",
]


def security(*target):
    """The security of the target, with these keys set in its section."""
    overrides = [*KAFKA, *(f"target.{each}" for each in target)]
    return load_settings(overrides, environment={}, with_default_file=False).target_connection.security


@pytest.fixture
def authority(tmp_path):
    path = tmp_path / "ca.pem"
    path.write_text(CERTIFICATE_PEM)
    return path


def test_a_single_key_leaves_the_inherited_login_unchanged(authority):
    assert security(f"ssl_ca_location={authority}") == Security(
        "SASL_SSL", "PLAIN", "alice", "of-alice", ssl_ca=CERTIFICATE_PEM
    )


def test_other_credentials_inherit_protocol_and_mechanism():
    assert security("sasl_username=bob", "sasl_password=of-bob") == Security("SASL_SSL", "PLAIN", "bob", "of-bob")


def test_a_password_alone_is_for_the_inherited_user(tmp_path):
    file = tmp_path / "password"
    file.write_text("elsewhere\n")
    assert security("sasl_password=elsewhere").sasl_password == "elsewhere"  # noqa: S105
    assert security(f"sasl_password_file={file}") == Security("SASL_SSL", "PLAIN", "alice", "elsewhere")


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [("PLAINTEXT", Security()), ("SSL", Security("SSL"))],
)
def test_values_unused_by_the_targets_protocol_are_not_inherited(protocol, expected):
    assert security(f"security_protocol={protocol}") == expected


def test_a_key_that_is_set_to_its_default_counts_as_set():
    with pytest.raises(BadInput, match="target: security_protocol SASL_SSL needs sasl_mechanism"):
        security("sasl_mechanism=")


def test_the_password_of_one_user_is_never_sent_for_another_user():
    with pytest.raises(BadInput) as raised:
        security("sasl_username=bob")
    assert str(raised.value) == (
        "target: security_protocol SASL_SSL needs sasl_password; "
        "kafka.sasl_password is not for another user or key (--set target.sasl_username=bob)"
    )


@pytest.mark.parametrize(
    ("mechanism", "target", "reason"),
    [
        ("PLAIN", ["security_protocol=SASL_PLAINTEXT"], "protected by TLS in [kafka], and not inherited for SASL_PL"),
        (
            "SCRAM-SHA-512",
            ["security_protocol=SASL_PLAINTEXT", "sasl_mechanism=PLAIN"],
            "protected by TLS in [kafka], and not inherited for SASL_PLAINTEXT",
        ),
        ("SCRAM-SHA-512", ["sasl_mechanism=PLAIN"], "never sent by SCRAM, and not inherited for PLAIN, which sends"),
    ],
)
def test_a_password_is_not_sent_where_it_would_be_less_protected(mechanism, target, reason):
    kafka = [*KAFKA, f"kafka.sasl_mechanism={mechanism}"]
    overrides = [*kafka, *(f"target.{each}" for each in target)]
    with pytest.raises(BadInput) as raised:
        load_settings(overrides, environment={}, with_default_file=False)
    assert f"needs sasl_password; kafka.sasl_password is {reason}" in str(raised.value)
    assert "of-alice" not in str(raised.value)
    found = load_settings([*overrides, "target.sasl_password=own"], environment={}, with_default_file=False)
    assert found.target_connection.security.sasl_username == "alice"
    assert found.target_connection.security.sasl_password == "own"  # noqa: S105


def test_a_client_secret_is_not_inherited_if_tokens_would_be_sent_in_plain_text():
    kafka = [
        "kafka.security_protocol=SASL_SSL",
        "kafka.sasl_mechanism=OAUTHBEARER",
        "kafka.sasl_oauthbearer_token_endpoint_url=https://idp/token",
        "kafka.sasl_oauthbearer_client_id=alice",
        "kafka.sasl_oauthbearer_client_secret=of-alice",
        "target.security_protocol=SASL_PLAINTEXT",
    ]
    with pytest.raises(BadInput) as raised:
        load_settings(kafka, environment={}, with_default_file=False)
    assert "needs sasl_oauthbearer_client_secret; kafka.sasl_oauthbearer_client_secret is protected by TLS" in str(
        raised.value
    )


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        (
            ["target.librdkafka.security.protocol=SASL_PLAINTEXT"],
            "together with target.librdkafka.security.protocol, which may change where and how it is sent",
        ),
        (["target.librdkafka.sasl.mechanism=PLAIN"], "together with target.librdkafka.sasl.mechanism"),
        (
            ["target.librdkafka.enable.ssl.certificate.verification=false"],
            "together with target.librdkafka.enable.ssl.cert",
        ),
        (
            ["target.librdkafka.client.id=a", "target.librdkafka.ssl.ca.pem=x"],
            "together with target.librdkafka.ssl.ca.pem",
        ),
        (["target.librdkafka.client.id=a", "kafka.librdkafka.https.ca.pem=x"], "without kafka.librdkafka.https.ca.pem"),
    ],
)
def test_a_password_is_not_inherited_where_properties_of_librdkafka_change_how_it_is_sent(properties, reason):
    overrides = [*KAFKA, "kafka.sasl_mechanism=SCRAM-SHA-512", "kafka.target_servers=elsewhere:9092", *properties]
    with pytest.raises(BadInput) as raised:
        load_settings(overrides, environment={}, with_default_file=False)
    assert f"needs sasl_password; kafka.sasl_password is not inherited {reason}" in str(raised.value)
    found = load_settings([*overrides, "target.sasl_password=own"], environment={}, with_default_file=False)
    assert found.target_connection.librdkafka()["sasl.password"] == "own"


@pytest.mark.parametrize("secret", ["client_secret=of-alice", "token_function=company:token"])
def test_no_client_secret_or_token_function_serves_another_token_server(secret):
    kafka = [
        "kafka.security_protocol=SASL_SSL",
        "kafka.sasl_mechanism=OAUTHBEARER",
        "kafka.librdkafka.sasl.oauthbearer.config=here",
    ]
    kafka.append(f"kafka.sasl_oauthbearer_{secret}")
    if secret.startswith("client"):
        url = "kafka.sasl_oauthbearer_token_endpoint_url=https://idp/token"
        kafka += [url, "kafka.sasl_oauthbearer_client_id=alice"]
    load_settings(kafka, environment={}, with_default_file=False)
    elsewhere = "target.librdkafka.sasl.oauthbearer.token.endpoint.url=http://elsewhere/token"
    with pytest.raises(BadInput) as raised:
        load_settings([*kafka, elsewhere], environment={}, with_default_file=False)
    assert (
        f"kafka.sasl_oauthbearer_{secret.partition('=')[0]} is not inherited together with target.librdkafka.sasl."
        in str(raised.value)
    )
    assert "of-alice" not in str(raised.value)


def test_other_properties_of_librdkafka_leave_the_login_as_it_is():
    found = security("librdkafka.client.id=a")
    assert (found.sasl_username, found.sasl_password) == ("alice", "of-alice")


def test_a_mechanism_of_librdkafkas_own_needs_no_login_of_the_settings():
    found = security("sasl_mechanism=", "librdkafka.sasl.mechanism=GSSAPI")
    assert found.librdkafka()["sasl.mechanism"] == "GSSAPI"
    assert "sasl.password" not in found.librdkafka()


def test_a_password_is_inherited_if_it_is_equally_protected():
    assert security("security_protocol=SASL_SSL", "sasl_mechanism=SCRAM-SHA-512") == Security(
        "SASL_SSL", "SCRAM-SHA-512", "alice", "of-alice"
    )


def test_a_certificate_and_its_key_are_inherited_together_or_not_at_all(tmp_path):
    def pair(name):
        certificate, key = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        certificate.write_text(f"-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n")
        key.write_text(f"-----BEGIN PRIVATE KEY-----\n{name}\n")
        return [f"ssl_certificate_location={certificate}", f"ssl_key_location={key}"]

    first = ["kafka.security_protocol=SSL", *(f"kafka.{each}" for each in pair("first"))]

    def target(*more):
        overrides = [*first, *(f"target.{each}" for each in more)]
        return load_settings(overrides, environment={}, with_default_file=False).target_connection.security

    assert "first" in target().ssl_key
    second = target(*pair("second"))
    assert ("second" in second.ssl_certificate, "second" in second.ssl_key) == (True, True)
    for alone in pair("second"):
        with pytest.raises(
            BadInput,
            match="target: set ssl_certificate_location and ssl_key_location together; ",
        ):
            target(alone)


def test_each_key_of_the_target_shows_its_origin():
    overrides = [*KAFKA, "target.sasl_username=bob", "target.sasl_password=of-bob"]
    loaded = load_with_origins(overrides, None, {}, with_default_file=False)
    found = {each.name: (each.value, each.origin) for each in listed_settings(loaded)}
    assert found["target.security_protocol"] == ("SASL_SSL", "kafka")
    assert found["target.sasl_mechanism"] == ("PLAIN", "kafka")
    assert found["target.sasl_username"] == ("bob", "option")
    assert found["target.sasl_password"] == ("********", "option")
    assert found["target.sasl_password_file"] == ("", "default")
    assert found["target.ssl_ca_location"] == ("", "kafka")
