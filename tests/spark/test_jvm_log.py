"""The log of Spark's JVM as `conf/log4j2.properties` has it, by a small program with Spark's own log4j."""

import json
import subprocess
from pathlib import Path

import pyspark
import pytest

from tests.support.checkout import CHECKOUT
from tests.support.java_source import java_command

JARS = Path(pyspark.__file__).parent / "jars"
PROGRAM = """
import org.apache.logging.log4j.*;

class Program {
    public static void main(String[] arguments) {
        ThreadContext.put("mdc.query", "audit");
        ThreadContext.put("BATCH_ID", "7");
        Logger log = LogManager.getLogger("org.example.Source");
        log.info("not logged");
        log.warn("two\\nlines");
        log.error("it fails", new IllegalStateException("why", new RuntimeException("cause")));
    }
}
"""


@pytest.fixture
def lines(tmp_path):
    """Return a function from the options of Java to the lines that the program logs."""
    source = tmp_path / "Program.java"
    source.write_text(PROGRAM)

    def run(*options):
        java, *arguments = java_command(source, JARS)
        conf = f"-Dlog4j2.configurationFile={(CHECKOUT / 'conf/log4j2.properties').as_uri()}"
        done = subprocess.run([java, conf, *options, *arguments], capture_output=True, text=True, check=True)
        assert done.stderr.endswith("\n")
        return done.stderr.splitlines()

    return run


def test_a_json_event_is_a_line_with_the_fields_of_the_python_log(lines):
    warning, error = map(json.loads, lines("-Dmutation-quota.log=json", "-Dmutation-quota.service=audit"))
    assert warning.pop("time").endswith("Z")
    assert warning == {
        "level": "WARN",
        "service": "audit",
        "logger": "org.example.Source",
        "message": "two\nlines",
        "query": "audit",
        "batch": "7",
        "thread": "main",
    }
    assert error["error"] == "java.lang.IllegalStateException"
    assert "Caused by: java.lang.RuntimeException: cause" in error["trace"]


def test_a_text_log_is_readable(lines):
    *_, error, reason = lines()
    assert error.endswith(" ERROR Source: it fails")
    assert reason == "why"
