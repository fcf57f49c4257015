"""`help(QuotaAdminClient)` is enough to use the client: its example, keys, outcomes and names are those of the code."""

import doctest
import inspect
import re

import pytest
from confluent_kafka import KafkaError

import quota.kafka.admin
from quota.kafka.admin import QuotaAdminClient, ThrottlingQuotaExceededError, TopicFuture
from quota.kafka.admin.client_options import ClientOptions
from quota.settings import load_settings

ABOUT = inspect.getdoc(QuotaAdminClient)
ROWS = re.findall(r"^\| (.+?) \| (.+?) \|(?: .+ \|)?$", ABOUT, re.MULTILINE)
KEYS = {key.strip("`"): default.strip("`") for key, default in ROWS if "." in key}


def test_the_example_names_what_the_package_exports():
    (example,) = doctest.DocTestFinder(recurse=False).find(QuotaAdminClient)
    imports, (client,) = example.examples[:-1], example.examples[-1:]
    scope = {}
    exec("".join(line.source for line in imports), scope)  # noqa: S102
    assert scope.keys() >= set(re.findall(r"\b[A-Z]\w+", re.sub(r'".*?"', "", client.source)))
    errors = re.findall(r"error\.(\w+)", client.source)
    assert len(errors) == 2
    assert [name for name in errors if not hasattr(ThrottlingQuotaExceededError("orders", 1), name)] == []


def test_the_names_in_the_docstrings_exist():
    """A key is one of the table; any other name is exported, an attribute, a parameter, or one of Kafka's errors."""
    owners = [quota.kafka.admin, QuotaAdminClient, TopicFuture, KafkaError, load_settings(environment={}).topics]
    methods = [QuotaAdminClient.create_topics, QuotaAdminClient.create_partitions, QuotaAdminClient.delete_topics]
    parameters = {name for method in methods for name in inspect.signature(method).parameters}
    named = (
        set(re.findall(r"`(\w+)`", ABOUT + quota.kafka.admin.__doc__))
        - set(KEYS.values())
        - {"fork", "with", "ANONYMOUS"}
    )
    assert named > {"TopicFuture", "close", "validate_only", "_TIMED_OUT"}
    assert [name for name in named - parameters if not any(hasattr(owner, name) for owner in owners)] == ["topic"]
    assert set(re.findall(r"^ +(\w+): ", inspect.getdoc(QuotaAdminClient.__init__), re.MULTILINE)) == {
        "conf",
        "kwargs",
        "BadInput",
        "ClusterError",
    }


def test_the_keys_have_these_defaults():
    options = ClientOptions.from_config({"bootstrap.servers": "b:1"})
    assert KEYS["client.id"] == options.client_id
    assert float(KEYS["default.api.timeout.ms"]) == options.time_limit_seconds * 1000
    assert KEYS["mutation.quota.client.user"].endswith(options.user)
    settings = {key.removeprefix("mutation.quota."): default for key, default in KEYS.items() if "quota" in key}
    for name in ("kafka.timeout_seconds", "topics.requests", "topics.identity"):
        section, key = name.split(".")
        assert str(getattr(getattr(options.settings, section), key)) == settings.pop(name)
    assert settings.keys() == {"client.user", "kafka.bootstrap_servers"}


@pytest.mark.parametrize("name", quota.kafka.admin.__all__)
def test_each_exported_name_has_a_docstring_of_its_own(name):
    assert vars(getattr(quota.kafka.admin, name))["__doc__"]
