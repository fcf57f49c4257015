"""The clients of `run`: Kafka's own tool, with a stand-in for java, and the quotas of the tenants."""

from types import SimpleNamespace

import pytest

from jobs.sandbox import traffic
from jobs.sandbox.traffic import KafkaTopics
from quota.settings import load_settings
from tests.support.waiting import until

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
    """Without the stack trace, which may be more than a pipe holds."""
    (tmp_path / "failed").write_text(f"{REJECTED}\n" + "at org.apache.kafka\n" * 10_000)
    assert first_output(tool, now=0) == f"--create: {REJECTED}"
    (tmp_path / "failed").unlink()
    assert first_output(tool, now=10) == "--create: Created topic made-by-kafka-topics."
    assert [call[0] for call in calls(tmp_path)] == ["--create", "--create"]


@pytest.mark.parametrize(("entries", "written"), [([], 4), (["a quota that somebody has removed"], 0)])
def test_only_a_new_quota_log_gets_the_quotas_of_the_tenants(entries, written, monkeypatch):
    records = []
    monkeypatch.setattr(traffic, "read_log", lambda *_, **__: SimpleNamespace(entries=entries))
    monkeypatch.setattr(traffic, "write_record", lambda _, record: records.append(record))
    traffic.set_tenant_quotas(load_settings(environment={}, with_default_file=False))
    assert len(records) == written
