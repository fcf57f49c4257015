"""The responses that a change of topics at the command line waits for."""

import logging
from concurrent.futures import Future

import pytest
import typer

from jobs.cli.output import OutputOptions
from jobs.cli.topics import changes as topic_changes
from jobs.cli.topics.changes import TopicChanges
from quota.client.call import Refusal
from quota.kafka.admin import ThrottlingQuotaExceededError
from quota.settings import load_settings


def changes(monkeypatch, silent_seconds, *more):
    monkeypatch.setattr(topic_changes, "_SILENT_SECONDS", silent_seconds)
    monkeypatch.setattr(topic_changes.ClientOptions, "from_settings", lambda _settings: None)
    monkeypatch.setattr(topic_changes, "QuotaAdminClient", lambda _options: None)
    settings = load_settings(["kafka.bootstrap_servers=k:9092", *more], environment={}, with_default_file=False)
    return TopicChanges(settings, OutputOptions())


class Late(Future):
    """A future that is done when its result is requested."""

    def exception(self, timeout=None):
        self.set_result(None)
        return super().exception(timeout)


@pytest.mark.parametrize(
    ("more", "question"),
    [
        ([], "is mutation-quota enforce running on k:9092?"),
        (["kafka.target_servers=t:9092"], "is mutation-quota enforce running on k:9092, and does t:9092 answer?"),
        (
            ["kafka.target_servers=t:9092", "client.applied_by=applier"],
            "are mutation-quota enforce and mutation-quota applier running on k:9092?",
        ),
        (["kafka.target_servers=t:9092", "client.applied_by=nobody"], "is mutation-quota enforce running on k:9092?"),
    ],
)
def test_a_slow_change_names_the_jobs_that_have_to_respond(more, question, monkeypatch, caplog, capsys):
    with caplog.at_level(logging.INFO):
        changes(monkeypatch, 0.01, *more).report("created", {"orders": Late()})
    assert caplog.messages == [f"waiting for topic orders: {question} Ctrl-C stops waiting"]
    assert capsys.readouterr().out == "Created topic orders.\n"


def test_a_change_decided_in_time_prints_nothing_else(monkeypatch, caplog, capsys):
    done = Future()
    done.set_result(None)
    with caplog.at_level(logging.INFO):
        changes(monkeypatch, 60).report("created", {"orders": done})
    assert caplog.messages == []
    assert capsys.readouterr().out == "Created topic orders.\n"


def test_a_refusal_names_the_decision_and_its_time(monkeypatch, capsys):
    refused = Future()
    refusal = Refusal("mutation-requests-0-2328", 1_728_043_228_572)
    refused.set_exception(ThrottlingQuotaExceededError("orders", 27_862, refusal))
    with pytest.raises(typer.Exit) as exit_code:
        changes(monkeypatch, 60).report("created", {"orders": refused})
    assert exit_code.value.exit_code == 3
    assert capsys.readouterr().out == (
        "Topic orders refused: the mutation quota is exhausted; try again in 27.862 s, at 2024-10-04T12:00:28.572Z. "
        "Explain it: mutation-quota explain mutation-requests-0-2328\n"
    )
