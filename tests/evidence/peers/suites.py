"""The suites of other projects: what is fetched, and how it is run."""

import json
import os
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from quota.errors import MutationQuotaError
from tests.support.checkout import CHECKOUT
from tests.support.java_source import compile_java
from tests.support.programs import JVM_OPTIONS

_JAVA = Path(__file__).parent / "java"
JARS = CHECKOUT / ".jars" / "peers"
"""Kafka's own tests and what they need; `make peers` copies them."""

KAFKA_PYTHON = "3.0.12"
_KNOWN_TO_KAFKA_PYTHON = (4, 3)
"""The newest release of brokers that its tests know."""
_SERVICE = """\
from contextlib import suppress

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.errors import TopicAlreadyExistsError


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass


class SpawnedService:
    pass


def send(producer, topic, *args, send=KafkaProducer.send, **kwargs):
    if topic not in known:
        known.add(topic)
        with KafkaAdminClient(bootstrap_servers=producer.config["bootstrap_servers"]) as admin:
            with suppress(TopicAlreadyExistsError):
                admin.create_topics({topic: {"num_partitions": 4}}, wait_for_metadata=True)
    return send(producer, topic, *args, **kwargs)


known = set()
KafkaProducer.send = send
"""
"""What its fixtures need of a broker that runs already, and topics that its tests have brokers create."""
FRANZ_GO = "v1.22.2"
_FRANZ_GO = "github.com/twmb/franz-go"
_SHOWN = 400
_LOG = "tests.log"
_SECONDS = 1200
_LOG4J = """\
appender.console.type=Console
appender.console.name=console
appender.console.target=SYSTEM_ERR
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{HH:mm:ss,SSS} %p %c %m%n
rootLogger.level=ERROR
rootLogger.appenderRef.console.ref=console
logger.core.name=kafka
logger.core.level=ERROR
logger.all.name=org.apache.kafka
logger.all.level=ERROR
"""
"""Some tests alter the levels of these loggers."""


@dataclass(frozen=True, slots=True)
class JavaSuite:
    """A class of Kafka's tests, which start their own brokers."""

    name: str
    """The class in Kafka."""
    runs: str
    """The class that is run: its subclass with other addresses, or the class itself."""
    smoke: tuple[str, ...]
    """A few of its tests."""

    def selected(self, *, smoke: bool) -> list[str]:
        """Return the selectors of JUnit for all its tests, or for those of the smoke form."""
        return [f"method:{self.runs}#{test}" for test in self.smoke] if smoke else [f"class:{self.runs}"]


PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
PASSED_LATER = "passed when repeated"
"""The outcome of a test that failed, and passed the second time."""
HAVE_PASSED = {PASSED, PASSED_LATER}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one test."""

    test: str
    outcome: str
    detail: str = ""


def _subclass(name: str, runs: str, *smoke: str) -> JavaSuite:
    return JavaSuite(name, f"AtGateway${runs}", smoke)


def _on_cluster(name: str, *smoke: str) -> JavaSuite:
    return JavaSuite(name, name, smoke)


JAVA = (
    _subclass("kafka.server.ControllerMutationQuotaTest", "Mutations", "testStrictCreateTopicsRequest"),
    _subclass("kafka.server.CreateTopicsRequestTest", "Creations", "testValidCreateTopicsRequests"),
    _subclass("kafka.server.DeleteTopicsRequestTest", "Deletions", "testDeleteTopicsVersions"),
    _subclass("kafka.api.PlaintextAdminIntegrationTest", "Admins", "testCreateDeleteTopics"),
    _on_cluster("org.apache.kafka.server.quota.ClientQuotasRequestTest", "testAlterClientQuotasRequest"),
    _on_cluster("org.apache.kafka.tools.TopicCommandTest", "testCreate(org.apache.kafka.common.test.ClusterInstance)"),
    _on_cluster("org.apache.kafka.tools.ConfigCommandIntegrationTest", "testUpdateInvalidTopicConfigs"),
)


def kafka_version() -> str:
    """Return the release of Kafka whose tests these are."""
    (jar,) = JARS.glob("kafka-tools-*-test.jar")
    return jar.name.removeprefix("kafka-tools-").removesuffix("-test.jar")


def compiled(folder: Path) -> list[str]:
    """Compile the Java programs, and return the command that runs tests.

    Raises:
        MutationQuotaError: The jars are missing, or the compiler reports an error.
    """
    if not list(JARS.glob("kafka_*-test.jar")):
        raise MutationQuotaError(f"no jars with Kafka's tests in {JARS}: run make peers")
    services = folder / "META-INF" / "services"
    services.mkdir(parents=True)
    (services / "org.junit.jupiter.api.extension.Extension").write_text("ClusterAtGateway\n")
    (folder / "log4j2.properties").write_text(_LOG4J)
    compile_java(sorted(_JAVA.glob("*.java")), f"{JARS}/*", folder)
    log = f"-Dlog4j2.configurationFile={folder}/log4j2.properties"
    return ["java", *JVM_OPTIONS.split(), "-Xmx1g", log, "-cp", f"{folder}:{JARS}/*", "Run"]


def by_test(outcomes: Iterable[Outcome]) -> dict[str, Outcome]:
    """Return the outcome of each test, of those that were run twice the second one."""
    found: dict[str, Outcome] = {}
    for outcome in outcomes:
        first = found.get(outcome.test, outcome)
        later = (first.outcome, outcome.outcome) == (FAILED, PASSED)
        found[outcome.test] = replace(outcome, outcome=PASSED_LATER) if later else outcome
    return found


def in_java(java: Sequence[str], selected: Sequence[str], folder: Path, opener: int | None) -> Iterator[Outcome]:
    """Run classes or methods of tests, at brokers or at the gateways that the program at the port `opener` opens.

    Raises:
        MutationQuotaError: The JVM ended with an error.
    """
    environment = dict(os.environ) | ({} if opener is None else {"PEERS_GATEWAYS": str(opener)})
    log = folder / _LOG
    for _ in range(2):
        failing = []
        with (
            log.open("ab") as errors,
            subprocess.Popen(
                [*java, *selected], cwd=folder, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True
            ) as process,
        ):
            for line in process.stdout or ():
                if line.startswith("PEERS "):
                    said = json.loads(line.removeprefix("PEERS "))
                    failing += [f"uid:{said['id']}"] if said["id"] and said["outcome"] == FAILED else []
                    yield Outcome(said["test"], said["outcome"], said["detail"])
        if process.returncode:
            raise MutationQuotaError(f"the tests in Java ended with {process.returncode}: {log.read_text()[-2000:]}")
        if not failing:
            return
        selected = failing


def in_python(folder: Path, servers: str, release: str, only: str = "") -> Iterator[Outcome]:
    """Run kafka-python's integration tests, which its source distribution has, at a cluster of a release of Kafka.

    Raises:
        MutationQuotaError: It cannot be installed, or its tests end without results.
    """
    source, python = folder / f"kafka_python-{KAFKA_PYTHON}", str(folder / "venv" / "bin" / "python")
    _run([sys.executable, "-m", "venv", str(folder / "venv")])
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    fetched = ["--no-deps", "--no-binary", ":all:", "--dest", str(folder), f"kafka-python=={KAFKA_PYTHON}"]
    _run([*pip, "download", *fetched])
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    _run([*pip, "install", "pytest", "pytest-timeout", f"{source}[lz4,snappy,zstd]"])
    (source / "test" / "__init__.py").touch()  # it and the next one are not in the distribution
    (source / "test" / "service.py").write_text(_SERVICE)

    log, results = folder / _LOG, folder / "results.xml"
    known = min(tuple(int(part) for part in release.split(".")[:2]), _KNOWN_TO_KAFKA_PYTHON)
    version = ".".join([*map(str, known), "0"])
    variables = {"KAFKA_URI": f"kafka://{servers}", "KAFKA_VERSION": version, "KAFKA_ROOT": str(folder)}
    tests = [f"test/integration/test_{kind}_integration.py" for kind in ("admin", "consumer", "producer")]
    limits = ["--timeout", "120", "--timeout-method", "signal"]
    selected = ["-k", only] if only else []
    for again in ([], ["--last-failed"]):
        results.unlink(missing_ok=True)
        with log.open("ab") as output:
            done = subprocess.run(
                [python, "-m", "pytest", "-q", *limits, f"--junit-xml={results}", *selected, *again, *tests],
                cwd=source,
                env=dict(os.environ) | variables,
                stdout=output,
                stderr=output,
                check=False,
                timeout=_SECONDS,
            )
        if not results.exists():
            raise MutationQuotaError(f"kafka-python's tests ended without results: {log.read_text()[-2000:]}")
        yield from map(_of_case, ET.parse(results).getroot().iter("testcase"))  # noqa: S314 pytest has written it
        if not done.returncode:
            return


def _of_case(case: ET.Element) -> Outcome:
    name = f"{case.get('classname', '').rpartition('.')[2]} {case.get('name')}"
    for tag, outcome in (("failure", FAILED), ("error", FAILED), ("skipped", SKIPPED)):
        if (found := case.find(tag)) is not None:
            return Outcome(name, outcome, (found.get("message") or "")[:_SHOWN])
    return Outcome(name, PASSED)


def in_go(folder: Path, servers: str, only: str) -> Iterator[Outcome]:
    """Run franz-go's tests of groups and transactions at a cluster.

    Raises:
        MutationQuotaError: Go is missing, or the module cannot be fetched.
    """
    module, log = folder / "franz-go", folder / _LOG
    module.mkdir()
    _run(["go", "mod", "init", "peers"], module)
    _run(["go", "get", "-t", f"{_FRANZ_GO}/pkg/kgo@{FRANZ_GO}"], module)
    variables = {"KGO_SEEDS": servers, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "20000"}
    words = {"pass": PASSED, "fail": FAILED, "skip": SKIPPED}
    for _ in range(2):
        command = ["go", "test", "-json", "-timeout", f"{_SECONDS}s", "-run", only, f"{_FRANZ_GO}/pkg/kgo"]
        with log.open("a") as output:
            done = subprocess.run(
                command,
                cwd=module,
                env=dict(os.environ) | variables,
                stdout=subprocess.PIPE,
                stderr=output,
                check=False,
                text=True,
            )
            said: dict[str, str] = defaultdict(str)
            failing = []
            for event in (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")):
                test, action = event.get("Test", ""), event["Action"]
                output.write(event.get("Output", ""))
                said[test] += event.get("Output", "")
                if test and action in words:
                    failing += [test] if action == "fail" and "/" not in test else []
                    yield Outcome(test, words[action], said[test][-_SHOWN:] if action == "fail" else "")
        if not failing:
            return
        only = f"^({'|'.join(failing)})$"


def _run(command: Sequence[str], folder: Path | None = None) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise MutationQuotaError(f"{command[0]} is not installed") from error
    if done.returncode:
        raise MutationQuotaError(f"{' '.join(command)}: {done.stderr[-2000:]}")
