"""The lines that `run` prints."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from jobs.metrics.totals import DecisionTotals
from jobs.sandbox import traffic
from jobs.sandbox.broker import Broker, free_port, with_plaintext_cluster
from jobs.sandbox.cluster import Cluster
from jobs.sandbox.run import poll_client, totals_line
from jobs.sandbox.traffic import KafkaTopics
from quota.algorithms.token_bucket import TokenBucket
from quota.errors import BadInput, ClusterError
from quota.records.quota import Window
from quota.settings import load_settings
from tests.support.factories import START, decide_all, resolved
from tests.support.waiting import until


class Client:
    """An unmodified client that has always something to say."""

    name = "kafka-topics.sh"

    def poll(self, _):
        return "--create: done"


def totals_of(*requests):
    totals = DecisionTotals(Window(), 10)
    _, decisions = decide_all(*requests, algorithm=TokenBucket(Window()))
    for decision in decisions:
        totals.record(decision, START)
    return totals


def test_a_line_has_the_totals_of_all_decisions():
    """At Q = 5 and B = 55: 55 - 60 = -5, so the second request is rejected."""
    totals = totals_of(resolved(60, at=START, offset=0), resolved(1500, at=START + 1, offset=1))

    assert totals_line(totals) == "2 decisions; mutations: 60 admitted, 1,500 rejected; dead letters: 0"
    assert totals_line(totals, 15.2).endswith("; dead letters: 0; none for 15 s")
    assert totals_line(totals_of(), 15.2) == "0 decisions; mutations: 0 admitted, 0 rejected; dead letters: 0"


def test_clients_start_with_the_first_decision_and_their_output_is_a_line(capsys):
    poll_client(Client(), totals_of())
    assert capsys.readouterr().out == ""

    poll_client(Client(), totals_of(resolved(1, at=START, offset=0)))
    assert capsys.readouterr().out == "kafka-topics.sh --create: done\n"


def test_the_credentials_of_another_cluster_are_not_used():
    given = ["kafka.security_protocol=SASL_PLAINTEXT", "kafka.sasl_mechanism=PLAIN", "kafka.sasl_username=ops"]
    given += ["kafka.sasl_password=secret", "kafka.target_servers=elsewhere:9092", "kafka.timeout_seconds=7"]
    settings = with_plaintext_cluster(load_settings(given, environment={}, with_default_file=False), "127.0.0.1:1")
    for connection in (settings.kafka.connection, settings.target_connection):
        assert connection.librdkafka() == {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "PLAINTEXT"}
    assert settings.kafka.timeout_seconds == 7


def test_nodes_follow_the_first_port(tmp_path):
    assert Cluster(tmp_path, Path("jars"), 3, 9092).address == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"


def test_ports_above_the_last_one_are_rejected(tmp_path):
    with pytest.raises(BadInput, match="3 nodes from port 65534 on need ports above 65535; choose a lower --port"):
        Cluster(tmp_path, Path("jars"), 3, 65534)


def test_the_data_of_a_cluster_of_a_different_size_is_rejected(tmp_path):
    for number in (1, 2, 3):
        (tmp_path / f"node-{number}").mkdir()
    with pytest.raises(BadInput, match="contains a cluster of 3 nodes, not 5; choose another folder with --data"):
        Cluster(tmp_path, Path("jars"), 5)
    assert len(Cluster(tmp_path, Path("jars"), 3).nodes) == 3


REJECTED = "Error while executing topic command : The throttling quota has been exceeded."

# Replaces java: records its calls, and prints the file `said`, or fails with what is in `failed`.
JAVA = """\
#!/bin/sh
echo "$@" >> {folder}/calls
[ -f {folder}/failed ] && cat {folder}/failed && exit 1
cat {folder}/said
"""


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """The tool with a stand-in for java; no JVM is started."""
    java = tmp_path / "java"
    java.write_text(JAVA.format(folder=tmp_path))
    java.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda _: str(java))
    (tmp_path / "said").write_text("Created topic made-by-kafka-topics.\n")
    topics = KafkaTopics(tmp_path, "127.0.0.1:1", tmp_path / "clients")
    yield topics
    topics.close()


def first_output(tool, now):
    """Start the tool and wait for its output."""
    return until(lambda: tool.poll(now), poll_seconds=0.01)


def calls(folder):
    """Return the calls of the tool, in order."""
    return [line.split()[10:] for line in (folder / "calls").read_text().splitlines()]


def test_a_topic_is_created_and_then_deleted(tool, tmp_path):
    assert first_output(tool, now=0) == "--create: Created topic made-by-kafka-topics."
    (tmp_path / "said").write_text("")
    assert first_output(tool, now=10) == "--delete: done"
    create, delete = calls(tmp_path)
    assert create == ["--create", "--if-not-exists", "--topic", "made-by-kafka-topics", "--partitions", "20"]
    assert delete == ["--delete", "--if-exists", "--topic", "made-by-kafka-topics"]


def test_a_rejection_is_shown_and_retried(tool, tmp_path):
    (tmp_path / "failed").write_text(f"{REJECTED}\nat org.apache.kafka\n")
    assert first_output(tool, now=0) == f"--create: {REJECTED}"
    (tmp_path / "failed").unlink()
    assert first_output(tool, now=10) == "--create: Created topic made-by-kafka-topics."
    assert [call[0] for call in calls(tmp_path)] == ["--create", "--create"]


@pytest.fixture
def broker(tmp_path, monkeypatch):
    """Return a function that makes a broker in a folder; it only sleeps, and no JVM is started."""
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\nexec sleep 60\n")
    java.chmod(0o755)
    monkeypatch.setattr("jobs.sandbox.broker.java_program", lambda: java)
    made = []

    def _broker():
        made.append(Broker(tmp_path / "data", Path("jars")))
        return made[-1]

    yield _broker
    for started in made:
        started.kill()


def test_a_folder_in_which_a_broker_runs_is_not_touched_by_another(broker, tmp_path):
    first, second = broker(), broker()
    first.prepare()
    first.launch()
    before = (tmp_path / "data" / "server.properties").read_text()
    with pytest.raises(BadInput, match=r"another broker uses .*/data: stop that mutation-quota run or broker first"):
        second.prepare()
    assert (tmp_path / "data" / "server.properties").read_text() == before
    first.stop()
    second.prepare()
    assert (tmp_path / "data" / "server.properties").read_text() != before  # its own port


def test_a_broker_whose_program_was_killed_keeps_its_folder_until_it_has_ended(broker):
    first, second = broker(), broker()
    first.prepare()
    first.launch()
    first._release()  # noqa: SLF001 as the kernel does for a program that ends
    with pytest.raises(BadInput, match="another broker uses"):
        second.prepare()
    first.kill()
    second.prepare()


STARTUP = """\
[2026-11-26 16:51:51,156] WARN Performing controller activation. (org.apache.kafka.controller.QuorumController)
[2026-11-26 16:51:51,600] ERROR Unable to start acceptor for PLAINTEXT (kafka.network.DataPlaneAcceptor)
org.apache.kafka.common.KafkaException: Socket server failed to bind to 127.0.0.1:26081: Address already in use.
\tat kafka.network.Acceptor.openServerSocket(SocketServer.scala:633)
Caused by: java.net.BindException: Address already in use
\tat java.base/sun.nio.ch.Net.bind0(Native Method)
[2026-11-26 16:51:51,603] WARN Attempting to close NetworkClient that has been closed. (org.apache.kafka.NetworkClient)
"""


def test_the_end_of_a_broker_is_explained_by_the_last_error_of_its_log(broker, tmp_path):
    """Not by its last line, and not by an error of an earlier start."""
    (tmp_path / "java").write_text(f"#!/bin/sh\ncat >> {tmp_path}/data/broker.log <<'END'\n{STARTUP}END\nexit 1\n")
    cause = "Unable to start acceptor for PLAINTEXT: Socket server failed to bind to 127.0.0.1:26081: .* in use"
    for _ in range(2):
        with pytest.raises(ClusterError, match=f"^the broker has exited: {cause}; see .*/data/broker.log$"):
            broker().start()
    (tmp_path / "java").write_text("#!/bin/sh\necho no such option\nexit 3\n")
    with pytest.raises(ClusterError, match=r"^the broker has exited with code 3: no such option; see "):
        broker().start()
    (tmp_path / "java").write_text("#!/bin/sh\nkill -9 $$\n")
    with pytest.raises(ClusterError, match=r"^the broker was killed by SIGKILL; see "):
        broker().start()


@pytest.mark.parametrize(("entries", "written"), [([], 4), (["a quota that somebody has removed"], 0)])
def test_only_a_new_quota_log_gets_the_quotas_of_the_tenants(entries, written, monkeypatch):
    records = []
    monkeypatch.setattr(traffic, "read_log", lambda *_, **__: SimpleNamespace(entries=entries))
    monkeypatch.setattr(traffic, "write_record", lambda _, record: records.append(record))
    traffic.set_tenant_quotas(load_settings(environment={}, with_default_file=False))
    assert len(records) == written


def test_no_port_is_given_twice():
    # one that is not used yet is free, too: a broker with six listeners could have two on one port
    given = [free_port() for _ in range(1_000)]
    assert len(set(given)) == len(given)
