"""The clients of `run` that know nothing of this project."""

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from jobs.sandbox.unmodified import KafkaTopics, Librdkafka
from tests.support.waiting import until

REFUSED = "Error while executing topic command : The throttling quota has been exceeded."

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
    found = KafkaTopics(tmp_path, "127.0.0.1:1", tmp_path / "clients", partitions=20)
    yield found
    found.close()


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


class Admin:
    """A stand-in for librdkafka's AdminClient, whose calls end at once with these errors, or without one for None."""

    def __init__(self, *errors):
        self.errors, self.calls = list(errors), []

    def create_topics(self, topics, **_):
        return self._ended("create", topics[0].topic)

    def delete_topics(self, topics, **_):
        return self._ended("delete", topics[0])

    def _ended(self, call, topic):
        self.calls.append(call)
        done = Future()
        error = self.errors.pop(0)
        done.set_exception(KafkaException(KafkaError(error))) if error else done.set_result(None)
        return {topic: done}


def test_librdkafka_continues_where_an_earlier_run_was_stopped(monkeypatch):
    """The topic exists at the start, and is gone before it is deleted; after other errors the call is repeated."""
    admin = Admin(KafkaError.TOPIC_ALREADY_EXISTS, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.REQUEST_TIMED_OUT, None)
    monkeypatch.setattr("jobs.sandbox.unmodified.AdminClient", lambda _: admin)
    client = Librdkafka("127.0.0.1:1", partitions=10)
    shown = [output for _ in range(4) if not (client.poll(0)) and (output := client.poll(1))]
    assert admin.calls == ["create", "delete", "create", "create"]
    assert [line.partition(":")[0] for line in shown] == ["create", "delete", "create", "create"]
    assert shown[0] == "create: done after 1.0 s"
    assert "imed out" in shown[2]
