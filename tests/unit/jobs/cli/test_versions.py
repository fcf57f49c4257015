"""`mutation-quota --version`."""

import os
import re
import subprocess

from tests.support.programs import command_line, run


def test_the_versions_are_printed_line_by_line():
    done = run("--version")
    assert (done.returncode, done.stderr) == (0, "")
    found = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert list(found) == ["mutation-quota", "Python", "Spark", "Delta", "Kafka", "confluent-kafka", "state", "tables"]
    for name in ("mutation-quota", "Python", "Spark", "Delta", "confluent-kafka"):
        assert re.match(r"\d+\.\d+", found[name])
    assert re.fullmatch(r"\d+\.\d+\.\d+ \(broker and gateway\), \d+\.\d+\.\d+ \(Spark's client\)", found["Kafka"])
    assert found["state"].isdigit()
    assert re.fullmatch(r"(\w+ \d+, )+quota_changes \d+", found["tables"])


def test_the_versions_need_no_java():
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": "/nowhere"}
    done = subprocess.run(command_line("--version"), env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == run("--version").stdout
