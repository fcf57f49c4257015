"""Functions for tokens: valid results, the reports of their errors, and the settings of each client."""

import time

import pytest
from confluent_kafka import KafkaError, KafkaException

from quota.errors import BadInput, ClusterError
from quota.kafka.admin.options import ClientOptions
from quota.kafka.brokers.tokens import TokenFunction, to_token
from quota.kafka.clients import client_config, cluster_errors
from quota.settings import load_settings
from quota.settings.security.clients import Security

HOUR = 3600
CALLS = []


def counted(config):
    CALLS.append(config)
    return f"token-{len(CALLS)}", time.time() + HOUR, "alice", {"logicalCluster": "lkc-1"}


def short_lived(_config):
    CALLS.append("short")
    return f"token-{len(CALLS)}", time.time() + 1


def opaque(_config):
    return "opaque", time.time() + HOUR


def failing(_config):
    raise RuntimeError("no credentials\nwere found")


def failing_later(_config):
    if CALLS:
        raise RuntimeError("the role is gone")
    CALLS.append("failing later")
    return "token", time.time() + 1


def lacking(_config):
    return "token"


def endless(_config):
    return "token", None


@pytest.fixture(autouse=True)
def _no_calls():
    CALLS.clear()


def load(function, *more, module=__name__):
    login = ["kafka.security_protocol=SASL_PLAINTEXT", "kafka.sasl_mechanism=OAUTHBEARER"]
    login += [f"kafka.sasl_oauthbearer_token_function={module}:{function}", *more]
    return load_settings(login, environment={}, with_default_file=False)


def test_librdkafka_calls_the_function_with_its_config():
    settings = load("counted", "kafka.librdkafka.sasl.oauthbearer.config=region=eu")
    config = client_config(settings.kafka.connection)
    callback = config.pop("oauth_cb")
    assert {name: value for name, value in config.items() if name.startswith(("sasl", "security"))} == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.config": "region=eu",
    }
    last = len(CALLS)
    assert [callback("region=eu")[0], callback("region=eu")[0]] == [f"token-{last}", f"token-{last + 1}"]
    assert set(CALLS) == {"region=eu"}


def test_a_token_that_has_nearly_expired_is_not_used():
    function = TokenFunction(load("short_lived").kafka.security)
    assert function()[0] == "token-2"


def test_the_result_of_a_function_has_the_principal_and_extensions():
    token = to_token(counted(""))
    assert (token.value, token.subject, token.extensions) == ("token-1", "alice", {"logicalCluster": "lkc-1"})
    assert to_token(opaque("")).subject == ""


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("failing", f"cannot get a token by {__name__}:failing: RuntimeError: no credentials were found"),
        ("lacking", "expected (token, expiry in epoch seconds[, principal[, extensions]]), got str"),
        ("endless", "the expiry is NoneType, expected seconds"),
    ],
)
def test_a_function_without_a_token_is_reported_in_one_line(function, error):
    with pytest.raises(ClusterError) as raised:
        client_config(load(function).kafka.connection)
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_function_that_fails_later_is_the_reason_of_an_error_once():
    connection = load("failing_later").kafka.connection
    client_config(connection)
    with pytest.raises(ClusterError) as raised, cluster_errors("read topic quotas", connection):
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))  # noqa: SLF001
    assert str(raised.value) == (
        f"cannot read topic quotas: cannot get a token by {__name__}:failing_later: RuntimeError: the role is gone"
    )


@pytest.mark.parametrize(
    ("module", "function", "error"),
    [
        (
            "no.such",
            "token",
            "sasl_oauthbearer_token_function no.such:token: ModuleNotFoundError: No module named",
        ),
        (__name__, "nobody", "nobody: AttributeError: "),
        (__name__, "HOUR", "HOUR: not a function"),
    ],
)
def test_a_missing_function_is_reported(module, function, error):
    with pytest.raises(BadInput) as raised:
        client_config(load(function, module=module).kafka.connection)
    assert error in str(raised.value)


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ("kafka.sasl_oauthbearer_token_function=module.function", "expected module:function"),
        ("kafka.sasl_oauthbearer_client_id=a", "token_function does not use sasl_oauthbearer_client_id"),
        ("kafka.sasl_oauthbearer_scope=a", "token_function does not use sasl_oauthbearer_scope"),
        ("kafka.sasl_username=a", "sasl_mechanism OAUTHBEARER does not use sasl_username"),
    ],
)
def test_incompatible_settings_are_rejected(more, error):
    with pytest.raises(BadInput) as raised:
        load("counted", more)
    assert error in str(raised.value)


def test_sparks_clients_need_their_own_login():
    with pytest.raises(BadInput, match=r"Spark's clients cannot call sasl_oauthbearer_token_function; set sasl"):
        load("counted").kafka.security.java()
    own = load("counted", "kafka.java.sasl.mechanism=AWS_MSK_IAM", "kafka.java.sasl.jaas.config=a.Module required;")
    assert own.kafka.security.java() == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": "a.Module required;",
    }


def test_the_user_of_a_client_is_the_functions_principal_or_must_be_set():
    assert ClientOptions.from_settings(load("counted")).user == "alice"
    with pytest.raises(BadInput, match=r"client\.user is missing: .* which its token does not say"):
        ClientOptions.from_settings(load("opaque"))
    assert ClientOptions.from_settings(load("opaque", "client.user=carol")).user == "carol"


def test_the_target_has_the_function_or_its_own_token_server():
    name = f"{__name__}:counted"
    assert load("counted").target_connection.security.token_function == name
    login = ["security_protocol=SASL_PLAINTEXT", "sasl_mechanism=OAUTHBEARER"]
    server = ["token_endpoint_url=http://idp/token", "client_id=a", "client_secret=b"]
    own = [*login, *(f"sasl_oauthbearer_{each}" for each in server)]
    target = load("counted", *(f"target.{each}" for each in own)).target_connection.security
    assert (target.token_function, target.oauth.client_id) == ("", "a")
    assert load("counted").target_connection.security != Security()
