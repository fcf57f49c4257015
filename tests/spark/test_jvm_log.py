"""The log of Spark's JVM as `conf/log4j2.properties` has it, by a small program with Spark's own log4j."""

import json
import re
import subprocess
from pathlib import Path

import pyspark

from tests.support.checkout import CHECKOUT
from tests.support.java_source import java_command

JARS = Path(pyspark.__file__).parent / "jars"
PROGRAM = """
import org.apache.logging.log4j.*;
import org.apache.logging.log4j.core.config.Configurator;

class Program {
    public static void main(String[] arguments) {
        ThreadContext.put("mdc.query", "audit");
        ThreadContext.put("BATCH_ID", "7");
        log();
        System.clearProperty("mutation-quota.log");
        Configurator.reconfigure();
        log();
    }

    static void log() {
        Logger log = LogManager.getLogger("org.example.Source");
        log.info("not logged");
        log.warn("two\\nlines");
        log.error("it fails", new IllegalStateException("why", new RuntimeException("cause")));
    }
}
"""


def test_an_event_is_a_line_of_json_with_the_fields_of_the_python_log_or_a_readable_text(tmp_path):
    """The format is json, and then text, which is the default."""
    source = tmp_path / "Program.java"
    source.write_text(PROGRAM)
    java, *arguments = java_command(source, JARS)
    conf = f"-Dlog4j2.configurationFile={(CHECKOUT / 'conf/log4j2.properties').as_uri()}"
    options = ["-Dmutation-quota.log=json", "-Dmutation-quota.service=audit"]
    done = subprocess.run([java, conf, *options, *arguments], capture_output=True, text=True, check=True)
    warned, failed, *text = done.stderr.splitlines()
    warning, error = json.loads(warned), json.loads(failed)
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
    shown = [re.sub(r"^[\d-]+ [\d:]+ ", "", line) for line in text]
    assert shown == ["WARN Source: two", "lines", "ERROR Source: it fails", "why"]
