"""The settings in force, and their origins."""

import pytest

from quota.errors import BadInput
from quota.settings.listing import listed_settings
from quota.settings.loading import Override, load_with_origins

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
        return {each.name: each for each in listed_settings(loaded)}

    return _listed


def test_every_setting_has_its_default_if_it_is_not_set():
    found = list(listed_settings(load_with_origins([], None, {}, with_default_file=False)))

    assert {each.origin for each in found} == {"default", "kafka"}
    assert not [each.name for each in found if each.changed]
    assert found[0].name == "kafka.security_protocol"
    assert {"quota.window_num", "metrics.port", "topics.retired_users"} <= {each.name for each in found}


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
    found = listed(f"quota.callback_configs.registry={value}", f"quota.altered_by={value}")
    assert found["quota.callback_configs.registry"].value == shown
    assert found["quota.altered_by"].value == shown


def test_the_login_in_a_url_is_masked_in_a_list_and_in_an_error(listed):
    assert listed("quota.exempt_users=http://a:b@c")["quota.exempt_users"].value == ["http://********@c"]
    with pytest.raises(BadInput, match=r"got 'http://\*+@c' \(--set topics.partitions=http://\*+@c\)"):
        listed("topics.partitions=http://a:b@c")


def test_each_setting_shows_its_origin(listed, tmp_path):
    found = listed(
        "topics.partitions=4",
        Override("metrics.port=9", "--port"),
        MUTATION_QUOTA__QUOTA__WINDOW_NUM="20",
        KAFKA_BOOTSTRAP_SERVERS="k:9092",
    )

    def row_of(name):
        return found[name].value, found[name].origin, found[name].source

    assert row_of("quota.shadow") == (True, "file", str(tmp_path / "settings.toml"))
    assert row_of("quota.window_num") == (20, "environment", "MUTATION_QUOTA__QUOTA__WINDOW_NUM")
    assert row_of("kafka.bootstrap_servers") == ("k:9092", "environment", "KAFKA_BOOTSTRAP_SERVERS")
    assert row_of("topics.partitions") == (4, "option", None)
    assert row_of("metrics.port") == (9, "option", "--port")
    assert row_of("topics.create") == (True, "default", None)
    assert row_of("quota.exempt_users") == (["ann", "bob"], "file", str(tmp_path / "settings.toml"))


def test_entries_of_a_table_are_separate_settings(listed):
    found = listed()["quota.callback_configs.group.payments.users"]

    assert (found.value, found.default, found.changed, found.origin) == ("alice", None, True, "file")


def test_secrets_are_masked_and_their_files_are_not(listed, tmp_path):
    key = tmp_path / "password"
    key.write_text("hidden")
    found = listed(
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

    masked = {name for name, each in found.items() if each.value == "********"}
    assert masked == {
        "kafka.sasl_password",
        "quota.callback_configs.group.password",
        "storage.options.fs.s3a.endpoint",
        "spark.conf.a.secret.of.it",
        "kafka.java.ssl.key.password",
    }
    assert found["kafka.ssl_key_password"].value == ""
    assert found["target.sasl_password"].value == f"file:{key}"
    assert "hidden" not in repr(found)


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
