"""Settings: their origins, and the errors of invalid ones."""

import tomllib
from pathlib import Path

import pytest

from quota.errors import BadInput
from quota.settings import Settings, load_settings
from quota.settings.loading import DEFAULT_FILE
from quota.settings.types import in_bytes
from tests.support.checkout import CHECKOUT


@pytest.fixture
def write(tmp_path):
    def _write(text: str) -> Path:
        path = tmp_path / "settings.toml"
        path.write_text(text)
        return path

    return _write


def test_the_nearer_origin_wins(write):
    file = write("[quota]\nwindow_num = 2\n[topics]\nrequests = 'a'\n[storage]\nroot = 'from-file'")
    environment = {"MUTATION_QUOTA__QUOTA__WINDOW_NUM": "3", "MUTATION_QUOTA__TOPICS__REQUESTS": "b"}
    settings = load_settings(["quota.window_num=4"], file, environment)
    assert (settings.quota.window_num, settings.topics.requests, settings.storage.root) == (4, "b", "from-file")


def test_the_usual_name_of_the_cluster_is_understood():
    environment = {"KAFKA_BOOTSTRAP_SERVERS": "k:1"}
    assert load_settings(environment=environment).kafka.bootstrap_servers == "k:1"
    assert load_settings(["kafka.bootstrap_servers=l:2"], environment=environment).kafka.bootstrap_servers == "l:2"


def test_any_spark_property_can_be_given(write):
    file = write('[spark.conf]\n"spark.a.b" = "1"\n"spark.b" = true\n')
    settings = load_settings(["spark.conf.spark.c=2"], file, {})
    assert settings.spark.conf == {"spark.a.b": "1", "spark.b": "true", "spark.c": "2"}


@pytest.mark.parametrize(
    ("override", "error"),
    [
        ("quota.window_nun=3", "unknown setting quota.window_nun (--set quota.window_nun=3): did you mean quota."),
        ("quotas.window_num=3", "did you mean quota.window_num?"),
        ("quota.zzz=3", "unknown setting quota.zzz (--set quota.zzz): the keys of [quota] are altered_by, callback"),
        ("zzz.qqq=3", "unknown setting zzz.qqq (--set zzz.qqq): the sections are applier, audit, broker, client"),
        ("quota.window_num=abc", "quota.window_num: expected an integer, got 'abc' (--set quota.window_num=abc)"),
        ("quota.shadow=maybe", "quota.shadow: expected true or false, got 'maybe'"),
        ("kafka.timeout_seconds=soon", "kafka.timeout_seconds: expected a number, got 'soon'"),
        ("quota.window_num=0", "quota.window_num: expected a number of at least 1, got '0' (--set"),
        ("spark.driver_memory=lots", "spark.driver_memory: expected a size such as 512m or 1g, got 'lots'"),
        ("topics.requests=a b", "topics.requests: expected 1 to 249 letters, digits, dots, underscores and hyphens"),
        ("quota.window_num=3000000000", "quota.window_num: expected a number of at most 2,147,483,647, got"),
        ("kafka.timeout_seconds=0", "kafka.timeout_seconds: expected a number above 0, got '0'"),
        ("topics.replication_factor=0", "topics.replication_factor: expected 1 or more, or -1 for the default, got"),
        ("audit.keep_days.no=1", "audit.keep_days.no: expected 'decisions' or 'dead_letters', got 'no'"),
        ("observe.time_zone=Nowhere", "'Nowhere' is not a time zone, such as UTC, Europe/Berlin or +05:30 (--set"),
        ("gateway.listeners=x", "gateway.listeners: 'x' is not PORT=HOST:PORT, such as 19092=kafka-1:9094 (--set"),
        ("gateway.listeners=https://u:p@h", "gateway.listeners: 'https://********@h' is not PORT=HOST:PORT"),
        ("gateway.address=999.1.1.1", "gateway.address: '999.1.1.1' is neither an IP address nor a host name (--set"),
        ("kafka.bootstrap_servers=", "kafka.bootstrap_servers is empty"),
        ("kafka.bootstrap_servers=f:99999", "kafka.bootstrap_servers: 'f:99999' has no port from 1 to 65,535 (--set"),
        ("kafka.bootstrap_servers=:::::", "':::::' is not HOST:PORT, such as kafka-1:9092 or [::1]:9092 (--set"),
        ("gateway.ssl_key_pasword=hunter2", "(--set gateway.ssl_key_pasword): did you mean gateway.ssl_key_password?"),
        ("topics.decisions=mutation-requests", "topics: mutation-requests is the name of two topics; each needs"),
        ("topics.decisions=..", "topics: .. is not a valid topic name"),
        ("topics.identity=header", "topics.identity: "),
        ("spark.conf.=x", "spark.conf must be set entry by entry"),
        ("window_num=3", "expected section.key=value"),
    ],
)
def test_an_invalid_setting_is_one_line_with_its_key_and_value(override, error):
    with pytest.raises(BadInput) as raised:
        load_settings([override], environment={})
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)


def test_no_topic_of_the_jobs_may_be_a_users_topic():
    names = ["topics.decisions=mutation-requests.decisions", "topics.identity=topic"]
    with pytest.raises(BadInput, match=r"mutation-requests.decisions would be a user's topic"):
        load_settings(names, environment={})
    assert load_settings(names[:1], environment={}).topics.requests_of("alice") == "mutation-requests"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("MUTATION_QUOTA__QUOTA__WINDOW_NUN", ".*did you mean quota.window_num"),
        ("MUTATION_QUOTA__FOO", ": expected MUTATION_QUOTA__SECTION__KEY"),
        ("MUTATION_QUOTA__QUOTA__", ": expected MUTATION_QUOTA__SECTION__KEY"),
    ],
)
def test_an_invalid_variable_is_named(name, error):
    with pytest.raises(BadInput, match=f"{name}{error}"):
        load_settings(environment={name: "1"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a, b", ["a", "b"]),
        ('["admin"]', ["admin"]),
        ("['CN=a, O=b', \"c\"]", ["CN=a, O=b", "c"]),
        ("[]", []),
        ("", []),
    ],
)
def test_a_list_is_given_by_commas_or_as_in_the_file(text, expected):
    by_option = load_settings([f"quota.exempt_users={text}"], environment={})
    by_variable = load_settings(environment={"MUTATION_QUOTA__QUOTA__EXEMPT_USERS": text})
    assert (by_option.quota.exempt_users, by_variable.quota.exempt_users) == (expected, expected)


@pytest.mark.parametrize("text", ["[admin]", '["a"', '["a"] b', "[1]", '["\x00"]'])
def test_a_list_in_brackets_that_is_none_is_no_name(text):
    with pytest.raises(BadInput, match=r"quota\.exempt_users"):
        load_settings([f"quota.exempt_users={text}"], environment={})


@pytest.mark.parametrize("servers", ["SASL_SSL://a-b.c:9092, [::1]:9", "127.0.0.1:65535,localhost", "k_1.svc.:1"])
def test_servers_may_have_ports_and_addresses_of_either_kind(servers):
    settings = load_settings([f"kafka.bootstrap_servers={servers}", "gateway.address=::1"], environment={})
    assert (settings.kafka.bootstrap_servers, settings.gateway.address) == (servers, "::1")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[quota\n", "not TOML"),
        ("window_num = 3\n", "window_num is not a \\[section\\]"),
        ("[quotas]\n", "unknown setting quotas .*: did you mean quota?"),
        ("[quota]\nwindow_num = [1]\n", "quota.window_num: expected an integer, got \\[1\\]"),
        ("[spark]\nconf = 3\n", "spark.conf must be set entry by entry"),
        ("[spark.conf]\n'spark.x' = [3]\n", "spark.conf.spark.x: expected a string"),
    ],
)
def test_an_invalid_file_is_named(write, text, error):
    file = write(text)
    with pytest.raises(BadInput, match=error) as raised:
        load_settings((), file, {})
    assert str(file) in str(raised.value)


def test_a_named_file_has_to_exist(tmp_path):
    with pytest.raises(BadInput, match="no such file"):
        load_settings((), tmp_path / "none.toml", {})


def test_the_shipped_file_shows_every_setting_and_its_default():
    """The commented-out lines of the file change nothing when they are uncommented."""
    shipped = (CHECKOUT / DEFAULT_FILE).read_text()
    lines = [line.removeprefix("# ") for line in shipped.splitlines() if " = " in line or line.startswith("[")]
    shown = tomllib.loads("\n".join(lines))
    defaults = Settings().model_dump(mode="json")
    for section, table in (
        ("spark", "conf"),
        ("kafka", "librdkafka"),
        ("kafka", "java"),
        ("target", "librdkafka"),
        ("quota", "callback_configs"),
        ("storage", "options"),
        ("storage", "table_options"),
    ):
        assert shown[section].pop(table)
        assert defaults[section].pop(table) == {}
    assert shown == defaults


def test_memory_in_bytes():
    assert (in_bytes("512m"), in_bytes("2g")) == (512 * 1024 * 1024, 2 * 1024**3)


def test_each_setting_is_described_with_its_upper_bound():
    """A bound that only keeps an integer within 32 bits is omitted."""
    sections = [type(section) for _, section in Settings()]
    settings = {f"{each.__name__}.{name}": field for each in sections for name, field in each.model_fields.items()}
    bounds = {
        name: next((rule.le for rule in field.metadata if hasattr(rule, "le")), None)
        for name, field in settings.items()
    }
    assert len([bound for bound in bounds.values() if bound]) > 20
    for name, field in settings.items():
        assert field.description, name
        assert bounds[name] in {None, 2**31 - 1} or f"{bounds[name]:,}" in field.description, name


def load(*overrides):
    return load_settings(overrides, environment={}).dashboard


@pytest.mark.parametrize(
    ("address", "local"),
    [("127.0.0.1", True), ("127.0.0.2", True), ("::1", True), ("0.0.0.0", False), ("::", False), ("10.1.2.3", False)],  # noqa: S104 it is refused
)
def test_other_machines_need_a_token(address, local):
    given = [f"dashboard.address={address}"]
    if not local:
        with pytest.raises(BadInput, match="requires token_file"):
            load(*given)
        given.append("dashboard.token_file=read-when-it-starts")
    assert load(*given).is_local == local


@pytest.mark.parametrize("address", ["localhost", "quota.example", "127.0.0.1:80"])
def test_a_name_is_not_an_address(address):
    with pytest.raises(BadInput, match="is not an IP address"):
        load(f"dashboard.address={address}")
