"""The command of Spark's JVM, compared with that of Spark's own launcher, and run by a user without a name."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyspark
from py4j.java_gateway import JavaGateway

from jobs.installation import java_program
from jobs.spark.jvm import java_command
from jobs.spark.session import HaltTimer
from tests.support.checkout import CHECKOUT
from tests.support.needs import need
from tests.support.programs import has_ended
from tests.support.waiting import until

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


def test_a_jvm_halts_by_itself_unless_its_timer_is_set_again():
    gateway = JavaGateway.launch_gateway(jarpath=str(*HOME.glob("jars/py4j-*.jar")), die_on_exit=True)
    pid = gateway.jvm.java.lang.ProcessHandle.current().pid()
    timer = HaltTimer(SimpleNamespace(_jvm=gateway.jvm, sparkContext=SimpleNamespace(_gateway=gateway)))
    timer.set(3600)
    earlier = timer._halting  # noqa: SLF001 waiting for what does not happen would take time
    timer.set(3600)
    assert earlier.isCancelled()
    timer.set(0.1)
    until(lambda: has_ended(pid))


NAMELESS = 123_456
"""A user id without an entry in /etc/passwd."""

USES_FILES = """
import sys
from jobs.spark.session import spark_session
from quota.settings import load_settings

folder = sys.argv[1]
settings = load_settings([f"storage.root={folder}/root"], environment={}, with_default_file=False)
with spark_session(settings, "audit") as spark:
    spark.range(3).write.parquet(f"{folder}/table")
    print(spark.sparkContext.sparkUser(), spark.read.parquet(f"{folder}/table").count())
"""


def test_a_session_starts_and_uses_files_under_a_user_id_without_a_name(tmp_path):
    """As in a container with a random user id; it may read the files of this checkout, wherever it is."""
    need(os.geteuid() == 0 and shutil.which("setpriv"), "only root can run a program as another user (setpriv)")
    tmp_path.chmod(0o777)
    rights = "+dac_read_search,+dac_override"
    user = ["setpriv", f"--reuid={NAMELESS}", "--regid=0", "--clear-groups"]
    user += [f"--inh-caps={rights}", f"--ambient-caps={rights}"]
    done = subprocess.run(
        [*user, sys.executable, "-c", USES_FILES, tmp_path],
        cwd=CHECKOUT,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"{NAMELESS} 3\n", done.stderr
    assert {path.stat().st_uid for path in (tmp_path / "table").iterdir()} == {NAMELESS}
