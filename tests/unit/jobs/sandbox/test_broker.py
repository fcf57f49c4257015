"""The embedded broker: its folder of data, the error by which it ends, its ports, and the settings that reach it."""

from pathlib import Path

import pytest

from jobs.sandbox.broker import Broker, free_port, with_plaintext_cluster
from quota.errors import BadInput, ClusterError
from quota.settings import load_settings


def test_the_credentials_of_another_cluster_are_not_used():
    given = ["kafka.security_protocol=SASL_PLAINTEXT", "kafka.sasl_mechanism=PLAIN", "kafka.sasl_username=ops"]
    given += ["kafka.sasl_password=secret", "kafka.target_servers=elsewhere:9092", "kafka.timeout_seconds=7"]
    settings = with_plaintext_cluster(load_settings(given, environment={}, with_default_file=False), "127.0.0.1:1")
    for connection in (settings.kafka.connection, settings.target_connection):
        assert connection.librdkafka() == {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "PLAINTEXT"}
    assert settings.kafka.timeout_seconds == 7


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


def test_no_port_is_given_twice():
    # one that is not used yet is free, too: a broker with six listeners could have two on one port
    given = [free_port() for _ in range(1_000)]
    assert len(set(given)) == len(given)
