"""The clients of `run` that know nothing of this project."""

import pytest

from jobs.sandbox.unmodified import KafkaTopics
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


def test_a_refusal_is_shown_and_retried(tool, tmp_path):
    (tmp_path / "failed").write_text(f"{REFUSED}\nat org.apache.kafka\n")
    assert first_output(tool, now=0) == f"--create: {REFUSED}"
    (tmp_path / "failed").unlink()
    assert first_output(tool, now=10) == "--create: Created topic made-by-kafka-topics."
    assert [call[0] for call in calls(tmp_path)] == ["--create", "--create"]
