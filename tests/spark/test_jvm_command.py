"""The command of Spark's JVM, and the one that Spark's own launcher prints."""

import os
import subprocess
from pathlib import Path

import pyspark

from jobs.installation import java_program
from jobs.spark.jvm import java_command

HOME = Path(pyspark.__file__).parent
MAIN = "org.apache.spark.deploy.SparkSubmit"


def test_it_is_the_command_of_sparks_launcher_without_what_java_warns_of(monkeypatch):
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Da=b '-Dc=d e'")
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    conf = {
        "spark.driver.memory": "3g",
        "spark.driver.extraClassPath": "/jars/a.jar:/jars/b.jar",
        "spark.driver.extraJavaOptions": "-Dx=1 '-Dy=2 3'",
        "spark.driver.defaultJavaOptions": "-Dz=4",
        "spark.master": "local[2]",
    }
    arguments = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    launcher = [
        java_program(),
        "-cp",
        f"{HOME}/jars/*",
        "org.apache.spark.launcher.Main",
        MAIN,
        *arguments,
        "pyspark-shell",
    ]
    environment = os.environ | {"SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13"}
    printed = subprocess.run(launcher, env=environment, capture_output=True, text=True, check=True).stdout
    command = printed.strip("\n\0").split("\0")
    command.remove("--add-modules=jdk.incubator.vector")
    command.remove("--add-opens=java.base/sun.security.action=ALL-UNNAMED")
    java, *options = java_command(HOME, conf)
    assert Path(java).samefile(command[0])
    assert options == command[1 : command.index(MAIN)]
