"""Settings: their origins, how they are listed, the storage root, and the errors of invalid ones."""

import tomllib
from pathlib import Path

import pytest

from quota.admission.identity import request_topic
from quota.errors import BadInput
from quota.settings import Settings, load_settings
from quota.settings.listing import listed_settings
from quota.settings.loading import DEFAULT_FILE, Override, load_with_origins
from quota.settings.storage import default_root
from quota.settings.types import in_bytes
from tests.support.checkout import CHECKOUT
from tests.support.logins import SASL, TOKENS, by_function


def load(*overrides):
    return load_settings(overrides, environment={}, with_default_file=False)


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


BY_PASSWORD = [*SASL, "kafka.sasl_password=hunter2"]
OF_A_FUNCTION = by_function("module:function")
WRONG = [
    # Names.
    (["quota.window_nun=3"], "unknown setting quota.window_nun (--set quota.window_nun=3): did you mean quota."),
    (["quotas.window_num=3"], "did you mean quota.window_num?"),
    (["quota.zzz=3"], "unknown setting quota.zzz (--set quota.zzz): remove it; the keys of [quota] are callback"),
    (
        ["zzz.qqq=3"],
        "unknown setting zzz.qqq (--set zzz.qqq): remove it; the sections are applier, audit, broker, client",
    ),
    (["kafka.sasl_passwrd=hunter2"], "unknown setting kafka.sasl_passwrd (--set kafka.sasl_passwrd): did you mean"),
    (["kakfa.secret=hunter2"], "unknown setting kakfa.secret (--set kakfa.secret): remove it; the sections are"),
    (["sasl_password=hunter2"], "--set sasl_password=********: expected section.key=value"),
    (["kafka.sasl_password:hunter2"], "--set ********: expected section.key=value"),
    (["storage.options=hunter2"], "storage.options must be set entry by entry"),
    (["spark.conf.=x"], "spark.conf must be set entry by entry"),
    (["audit.keep_days.no=1"], "audit.keep_days.no: expected 'decisions' or 'dead_letters', got 'no'"),
    # Values.
    (["quota.window_num=abc"], "quota.window_num: expected an integer, got 'abc' (--set quota.window_num=abc)"),
    (["quota.shadow=maybe"], "quota.shadow: expected true or false, got 'maybe'"),
    (["kafka.timeout_seconds=soon"], "kafka.timeout_seconds: expected a number, got 'soon'"),
    (["quota.window_num=0"], "quota.window_num: expected a number of at least 1, got '0' (--set"),
    (["quota.window_num=3000000000"], "quota.window_num: expected a number of at most 2,147,483,647, got"),
    (["kafka.timeout_seconds=0"], "kafka.timeout_seconds: expected a number above 0, got '0'"),
    (["spark.driver_memory=lots"], "spark.driver_memory: expected a size such as 512m or 1g, got 'lots'"),
    (["observe.time_zone=Nowhere"], "'Nowhere' is not a time zone, such as UTC, Europe/Berlin or +05:30 (--set"),
    (['quota.exempt_users=["a"'], 'quota.exempt_users: a list in brackets is written as in the file: ["a", "b"]'),
    (["quota.exempt_users=[1]"], "quota.exempt_users.0: expected a string"),
    (["topics.requests=a b"], "topics.requests: expected 1 to 249 letters, digits, dots, underscores and hyphens"),
    (["quota.rejection_message={reasons}"], "expected text with {reason} at most once, and no other braces, got"),
    (["topics.decisions=mutation-requests"], "topics: mutation-requests is the name of two topics; each needs"),
    (["topics.decisions=.."], "topics: .. is not a valid topic name"),
    # Addresses.
    (["kafka.bootstrap_servers="], "kafka.bootstrap_servers is empty"),
    (["kafka.bootstrap_servers=f:99999"], "kafka.bootstrap_servers: 'f:99999' has no port from 1 to 65,535 (--set"),
    (["kafka.bootstrap_servers=:::::"], "':::::' is not HOST:PORT, such as kafka-1:9092 or [::1]:9092 (--set"),
    (["gateway.listeners=x"], "gateway.listeners: 'x' is not PORT=HOST:PORT, such as 19092=kafka-1:9094 (--set"),
    (["gateway.listeners=https://u:hunter2@h"], "gateway.listeners: 'https://********@h' is not PORT=HOST:PORT, such"),
    (["gateway.address=999.1.1.1"], "gateway.address: '999.1.1.1' is neither an IP address nor a host name (--set"),
    (["dashboard.address=127.0.0.1:80"], "dashboard: address: '127.0.0.1:80' is not an IP address, such as"),
    # Roots. The credentials of a root would be printed and recorded in many places; no file system needs them.
    (["storage.root=s3a://key:hunter2/x@bucket"], "a URL with a password; set credentials in storage.options"),
    (["storage.root=hdfs://me:hunter2@nn/x"], "a URL with a password; set credentials in storage.options"),
    (["storage.root=S3N://b/x"], "storage.root: scheme S3N:// is not supported; write s3a://b/x, got 'S3N://b/x'"),
    (["storage.root=file:///srv/a%20b"], "storage.root: a folder has no scheme; write /srv/a b, got"),
    (["storage.root=file:quotas"], "storage.root: a folder has no scheme; write quotas, got"),
    (["storage.root=s3a://bucket/a%2Fb"], "decode a percent sign and two hexadecimal digits as one character"),
    # TLS and SASL.
    (["kafka.security_protocol=TLS"], "kafka.security_protocol: expected 'PLAINTEXT', 'SSL', "),
    (SASL, "kafka: security_protocol SASL_SSL needs sasl_password"),
    (["kafka.security_protocol=SASL_SSL"], "security_protocol SASL_SSL needs sasl_mechanism"),
    (["kafka.sasl_username=alice"], "security_protocol PLAINTEXT does not use sasl_username"),
    (["kafka.ssl_endpoint_identification_algorithm=none"], "PLAINTEXT does not use ssl_endpoint_"),
    ([*SASL, "kafka.sasl_password=hunter2\n"], "kafka.sasl_password: has a control character, got '***"),
    ([*SASL, "kafka.sasl_password=file:"], "kafka.sasl_password: expected file:PATH"),
    (
        ["kafka.security_protocol=SSL", "kafka.ssl_key_location=k"],
        "set ssl_certificate_location and ssl_key_location together",
    ),
    (["kafka.security_protocol=SSL", "kafka.ssl_key_password=hunter2"], "is given, but no ssl_key_location"),
    ([*TOKENS, "kafka.sasl_oauthbearer_client_id="], "sasl_mechanism OAUTHBEARER needs sasl_oauthbearer_client_id"),
    ([*TOKENS, "kafka.sasl_oauthbearer_token_endpoint_url=idp/token"], "expected http://host/path or https://"),
    (
        [*TOKENS, "kafka.librdkafka.sasl.oauthbearer.extensions=token1=hunter2"],
        "kafka: sasl.oauthbearer.extensions: expected name=value,name=value with letters as names",
    ),
    ([*TOKENS, "kafka.sasl_username=enforce"], "sasl_mechanism OAUTHBEARER does not use sasl_username"),
    (
        [*BY_PASSWORD, "kafka.sasl_oauthbearer_client_id=a"],
        "sasl_mechanism PLAIN does not use sasl_oauthbearer_client_id",
    ),
    ([*OF_A_FUNCTION, "kafka.sasl_oauthbearer_scope=a"], "token_function does not use sasl_oauthbearer_scope"),
    ([*OF_A_FUNCTION, "kafka.sasl_oauthbearer_token_function=module.function"], "expected module:function"),
    # The target: a login of `[kafka]` is never sent by other means than it says, and never silently in plain text.
    (["target.sasl_password=hunter2"], "target: security_protocol PLAINTEXT does not use sasl_"),
    *[
        ([*BY_PASSWORD, own], "target: security_protocol is not set, and kafka.security_protocol=SASL_SSL is not in")
        for own in ("target.sasl_password=hunter2", "target.librdkafka.security.protocol=SSL")
    ],
    # The gateway's certificates.
    (["gateway.ssl_issuer_key_location=k"], "set ssl_issuer_certificate_location and ssl_issuer_key_location together"),
    (["gateway.ssl_client_auth=requested"], "ssl_client_auth=requested requires ssl_certificate_location and ssl_ca_"),
    (
        ["gateway.ssl_principal_mapping_rules=RULE:a"],
        "principal rules: expected RULE:pattern/replacement/[LU] or DEF",
    ),
]
"""Settings that are rejected when they are loaded, and a part of the error."""


@pytest.mark.parametrize(("overrides", "error"), WRONG)
def test_wrong_settings_are_one_line_with_the_key_and_the_value_but_no_secret(overrides, error):
    with pytest.raises(BadInput) as raised:
        load(*overrides)
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_no_topic_of_the_jobs_may_be_a_users_topic():
    """Unless topics identify nobody."""
    decisions = "topics.decisions=mutation-requests.decisions"
    with pytest.raises(BadInput, match=r"mutation-requests.decisions would be a user's topic"):
        load(decisions, "topics.identity=topic")
    assert request_topic("alice", load(decisions).topics) == "mutation-requests"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("MUTATION_QUOTA__QUOTA__WINDOW_NUN", ".*did you mean quota.window_num"),
        ("MUTATION_QUOTA__FOO", ": expected MUTATION_QUOTA__SECTION__KEY"),
        ("MUTATION_QUOTA__QUOTA__", ": expected MUTATION_QUOTA__SECTION__KEY"),
        ("MUTATION_QUOTA__KAFKA__SASL_PASSWORD", r"\)$"),
    ],
)
def test_an_invalid_variable_is_named_without_its_value(name, error):
    with pytest.raises(BadInput, match=f"{name}{error}") as raised:
        load_settings(environment={name: "hunter2"})
    assert "hunter2" not in str(raised.value)


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


@pytest.mark.parametrize(
    ("servers", "addresses"),
    [
        ("SASL_SSL://a-b.c:9092, [::1]:9", [("a-b.c", 9092), ("::1", 9)]),
        ("127.0.0.1:65535,localhost,[::1]", [("127.0.0.1", 65_535), ("localhost", 9092), ("::1", 9092)]),
        ("k_1.svc.:1", [("k_1.svc.", 1)]),
    ],
)
def test_servers_may_have_ports_and_addresses_of_either_kind(servers, addresses):
    settings = load(f"kafka.bootstrap_servers={servers}", "gateway.address=::1")
    assert (settings.kafka.bootstrap_servers, settings.gateway.address) == (servers, "::1")
    assert settings.kafka.connection.addresses == addresses


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[kafka]\nsasl_password = 'hunter2\n", "not TOML"),
        ("[kafka]\nsasl_password = 'hunter2'\n", "PLAINTEXT does not use sasl_password"),
        ("window_num = 3\n", "window_num is not a \\[section\\]"),
        ("[quota]\nwindow_num = [1]\n", "quota.window_num: expected an integer, got \\[1\\]"),
        ("[storage.options]\n'fs.x' = ['hunter2']\n", "storage.options.fs.x: expected a string"),
    ],
)
def test_an_invalid_file_is_named_and_no_secret_in_it_is_shown(write, text, error):
    file = write(text)
    with pytest.raises(BadInput, match=error) as raised:
        load_settings((), file, {})
    assert str(file) in str(raised.value)
    assert "hunter2" not in str(raised.value)


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


@pytest.mark.parametrize(
    ("address", "local"),
    [("127.0.0.1", True), ("127.0.0.2", True), ("::1", True), ("0.0.0.0", False), ("::", False), ("10.1.2.3", False)],  # noqa: S104 it is rejected
)
def test_other_machines_need_a_token(address, local):
    given = f"dashboard.address={address}"
    if local:
        load(given)
    else:
        with pytest.raises(BadInput, match="requires token_file"):
            load(given)
    assert load(given, "dashboard.token_file=read-when-it-starts").dashboard.address == address


FILE = """
[quota]
shadow = true
exempt_users = ["ann", "bob"]

[quota.callback_configs]
"group.payments.users" = "alice"
"group.password" = "hidden"

[storage.options]
"fs.s3a.endpoint" = "hidden too"
"""


@pytest.fixture
def listed(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(FILE)

    def _listed(*overrides, **environment):
        loaded = load_with_origins(overrides, file, environment)
        return {setting.name: setting for setting in listed_settings(loaded)}

    return _listed


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("https://ann:s3cret@registry:8081/quotas", "https://********@registry:8081/quotas"),
        ("https://ghp_token@github.com/x", "https://********@github.com/x"),
        ("first=redis://:p@ss@cache:6379, second=none", "first=redis://********@cache:6379, second=none"),
        (
            "https://registry:8081/a?v=1&Access-Token=s3cret&page=2",
            "https://registry:8081/a?v=1&Access-Token=********&page=2",
        ),
        ("host=db user=ann password=s3cret", "host=db user=ann password=********"),
        ("https://registry:8081/token?monkey=1", "https://registry:8081/token?monkey=1"),
        ("-Xmx1g -Djavax.net.ssl.trustStorePassword=changeit", "-Xmx1g -Djavax.net.ssl.trustStorePassword=changeit"),
        ("abfss://container@account.dfs.core.windows.net/x", "abfss://container@account.dfs.core.windows.net/x"),
    ],
)
def test_logins_and_parameters_of_secrets_are_masked_in_any_value(listed, value, shown):
    settings = listed(f"quota.callback_configs.registry={value}", f"client.user={value}")
    assert settings["quota.callback_configs.registry"].value == shown
    assert settings["client.user"].value == shown


def test_the_login_in_a_url_is_masked_in_a_list_and_in_an_error(listed):
    assert listed("quota.exempt_users=http://a:b@c")["quota.exempt_users"].value == ["http://********@c"]
    with pytest.raises(BadInput, match=r"got 'http://\*+@c' \(--set topics.partitions=http://\*+@c\)"):
        listed("topics.partitions=http://a:b@c")


def test_each_setting_and_each_entry_of_a_table_shows_its_origin(listed, tmp_path):
    settings = listed(
        "topics.partitions=4",
        Override("metrics.port=9", "--port"),
        MUTATION_QUOTA__QUOTA__WINDOW_NUM="20",
        KAFKA_BOOTSTRAP_SERVERS="k:9092",
    )

    def row_of(name):
        return settings[name].value, settings[name].origin, settings[name].source

    assert row_of("quota.shadow") == (True, "file", str(tmp_path / "settings.toml"))
    assert row_of("quota.window_num") == (20, "environment", "MUTATION_QUOTA__QUOTA__WINDOW_NUM")
    assert row_of("kafka.bootstrap_servers") == ("k:9092", "environment", "KAFKA_BOOTSTRAP_SERVERS")
    assert row_of("topics.partitions") == (4, "option", None)
    assert row_of("metrics.port") == (9, "option", "--port")
    assert row_of("topics.create") == (True, "default", None)
    assert row_of("quota.exempt_users") == (["ann", "bob"], "file", str(tmp_path / "settings.toml"))
    entry = settings["quota.callback_configs.group.payments.users"]
    assert (entry.value, entry.default, entry.changed, entry.origin) == ("alice", None, True, "file")


def test_secrets_are_masked_and_their_files_are_not(listed, tmp_path):
    key = tmp_path / "password"
    key.write_text("hidden")
    settings = listed(
        "kafka.security_protocol=SASL_PLAINTEXT",
        "kafka.sasl_mechanism=PLAIN",
        "kafka.sasl_username=ann",
        "kafka.sasl_password=hidden",
        "target.security_protocol=SASL_PLAINTEXT",
        "target.sasl_mechanism=PLAIN",
        "target.sasl_username=bob",
        f"target.sasl_password=file:{key}",
        "spark.conf.a.secret.of.it=hidden",
        "kafka.java.ssl.key.password=file:hidden",
    )

    masked = {name for name, setting in settings.items() if setting.value == "********"}
    assert masked == {
        "kafka.sasl_password",
        "quota.callback_configs.group.password",
        "storage.options.fs.s3a.endpoint",
        "spark.conf.a.secret.of.it",
        "kafka.java.ssl.key.password",
    }
    assert settings["kafka.ssl_key_password"].value == ""
    assert settings["target.sasl_password"].value == f"file:{key}"
    assert "hidden" not in repr(settings)


def test_the_target_shows_the_security_of_kafka_while_its_own_section_is_empty(listed):
    kafka = ("kafka.security_protocol=SSL", "kafka.librdkafka.client.rack=a")
    inherited, own = listed(*kafka), listed(*kafka, "target.security_protocol=PLAINTEXT")

    assert (inherited["target.security_protocol"].value, inherited["target.security_protocol"].origin) == (
        "SSL",
        "kafka",
    )
    assert inherited["target.librdkafka.client.rack"].value == "********"
    assert (own["target.security_protocol"].value, own["target.security_protocol"].origin) == ("PLAINTEXT", "option")
    assert (own["target.sasl_username"].value, own["target.sasl_username"].origin) == ("", "default")
    assert "target.librdkafka.client.rack" not in own


def test_one_table_of_options_serves_spark_and_deltalake():
    options = {
        "fs.s3a.endpoint": "https://store:9000",
        "fs.s3a.endpoint.region": "eu-central-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": "the-key",
        "fs.s3a.secret.key": "the-secret",
        "fs.s3a.session.token": "the-token",
    }
    given = (f"storage.options.{key}={value}" for key, value in options.items())
    storage = load("storage.root=s3a://b/r", *given).storage
    assert storage.hadoop() == {f"spark.hadoop.{name}": value for name, value in options.items()}
    assert storage.deltalake() == {
        "retry_timeout": "15s",
        "aws_endpoint": "https://store:9000",
        "aws_region": "eu-central-1",
        "aws_virtual_hosted_style_request": "false",
        "aws_access_key_id": "the-key",
        "aws_secret_access_key": "the-secret",
        "aws_session_token": "the-token",
    }


def test_other_file_systems_have_deltalakes_own_options():
    given = ["storage.options.'fs.s3a.access.key'=a", "storage.table_options.google_service_account=/key.json"]
    storage = load(*given).storage
    assert storage.deltalake() == {"aws_access_key_id": "a", "google_service_account": "/key.json"}


@pytest.mark.parametrize(
    "root",
    ["abfss://c@account.dfs.core.windows.net/x", "hdfs://nn:8020/a@b", "s3a://b/a:b@c", "/srv/100% sure"],
)
def test_a_root_with_an_at_sign_or_a_percent_sign_of_its_own_is_accepted(root):
    assert load(f"storage.root={root}").storage.root == root


def test_an_endpoint_that_is_not_amazons_has_buckets_in_paths_and_any_region():
    """So that an endpoint and credentials are all that has to be written; what is written counts."""

    def options(*given):
        overrides = [f"storage.options.fs.s3a.{option}" for option in given]
        return load("storage.root=s3a://b/r", *overrides).storage

    own = options("endpoint=http://127.0.0.1:9000")
    assert own.hadoop() == {
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    assert own.deltalake() == {
        "retry_timeout": "15s",
        "aws_endpoint": "http://127.0.0.1:9000",
        "aws_region": "us-east-1",
        "aws_allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
    }
    # A scheme may be left out, as for Hadoop.
    assert options("endpoint=store:9000").deltalake()["aws_endpoint"] == "https://store:9000"
    plain = options("endpoint=store:9000", "connection.ssl.enabled=False").deltalake()
    assert (plain["aws_endpoint"], plain["aws_allow_http"]) == ("http://store:9000", "true")
    assert options("endpoint=http://[::1]:9", "endpoint.region=here").deltalake()["aws_region"] == "here"
    assert options("endpoint=s3.eu-central-1.amazonaws.com").hadoop() == {
        "spark.hadoop.fs.s3a.endpoint": "s3.eu-central-1.amazonaws.com"
    }
    assert options().deltalake() == {"retry_timeout": "15s"}


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("AWS_ACCESS_KEY_ID", "aws_access_key_id"),
        ("AWS_ENDPOINT_URL", "aws_endpoint"),
        ("ALLOW_HTTP", "aws_allow_http"),
        ("Retry_Timeout", "retry_timeout"),
    ],
)
def test_options_of_tables_in_s3_have_one_name_however_they_are_written(name, known):
    """deltalake knows all of these names; Arrow's file system is made from the one."""
    given = ["storage.root=s3a://b/r", "storage.options.fs.s3a.access.key=a", f"storage.table_options.{name}=mine"]
    options = load(*given).storage.deltalake()
    assert options[known] == "mine"
    assert len(options) == len({"retry_timeout", "aws_access_key_id", known})


@pytest.mark.parametrize(
    ("environment", "root"),
    [
        ({"XDG_DATA_HOME": "/home/ann/data"}, "/home/ann/data/mutation-quota"),
        ({"XDG_DATA_HOME": "relative"}, "/home/bob/.local/share/mutation-quota"),  # which the specification ignores
        ({}, "/home/bob/.local/share/mutation-quota"),
    ],
)
def test_an_installation_keeps_its_data_where_the_user_keeps_data(environment, root, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/bob")
    assert default_root(environment, tmp_path) == root
    assert default_root(environment) == ".data"  # in this checkout
