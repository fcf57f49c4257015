"""The command line as a whole: its start, its help, and the encoding of its arguments."""

import subprocess
import sys

import pytest

from tests.support.programs import run


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["quotas", "alter", "--user", "\udcff", "--add-config", "controller_mutation_rate=5"], "'\\udcff'"),
        (["quotas", "alter", "--user", "alice", "--comment=caf\udce9"], "'--comment=caf\\udce9'"),
        (["quotas", "history", "--entity-type", "users", "--entity-name", "\udcff"], "'\\udcff'"),
        (["topics", "create", "--topic", "orders-\udcff"], "'orders-\\udcff'"),
        (["buckets", "reset", "--tag", "group=\udcff"], "'group=\\udcff'"),
        (["explain", "\udcff"], "'\\udcff'"),
        (["\udcff"], "'\\udcff'"),
    ],
)
def test_an_argument_that_is_not_utf_8_is_named_and_exit_2(args, named):
    done = run(*args)
    assert (done.returncode, done.stderr) == (2, f"mutation-quota: argument {named}: not UTF-8\n")


@pytest.mark.parametrize("command", [[], ["quotas"], ["quotas", "alter"], ["enforce"], ["broker"], ["simulate"]])
def test_every_command_helps(command):
    done = run(*command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: " in done.stdout


def test_parsing_needs_neither_spark_nor_kafka_nor_arrow():
    """Their imports would more than double the time that `--help` takes."""
    program = "import sys, jobs.__main__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    heavy = {"confluent_kafka", "deltalake", "duckdb", "pandas", "prometheus_client", "pyarrow", "pyspark", "rich"}
    assert heavy & set(done.stdout.split()) == set()
