"""What a change of topics at the command line waits for."""

import logging
from concurrent.futures import Future

from jobs.cli.output import OutputOptions
from jobs.cli.topics import changes as topic_changes
from jobs.cli.topics.changes import TopicChanges
from quota.settings import load_settings


def changes(monkeypatch, silent_seconds):
    monkeypatch.setattr(topic_changes, "_SILENT_SECONDS", silent_seconds)
    monkeypatch.setattr(topic_changes.ClientOptions, "from_settings", lambda _settings: None)
    monkeypatch.setattr(topic_changes, "QuotaAdminClient", lambda _options: None)
    settings = load_settings(["kafka.bootstrap_servers=k:9092"], environment={}, with_default_file=False)
    return TopicChanges(settings, OutputOptions())


class Late(Future):
    """A future that is done when its result is asked for."""

    def exception(self, timeout=None):
        self.set_result(None)
        return super().exception(timeout)


def test_a_change_that_takes_long_says_who_has_to_answer(monkeypatch, caplog, capsys):
    with caplog.at_level(logging.INFO):
        changes(monkeypatch, 0.01).report("created", {"orders": Late()})
    assert caplog.messages == [
        "waiting for the decision on topic orders: is mutation-quota enforce running on k:9092? Ctrl-C stops waiting"
    ]
    assert capsys.readouterr().out == "Created topic orders.\n"


def test_a_change_that_is_decided_in_time_says_nothing_else(monkeypatch, caplog, capsys):
    done = Future()
    done.set_result(None)
    with caplog.at_level(logging.INFO):
        changes(monkeypatch, 60).report("created", {"orders": done})
    assert caplog.messages == []
    assert capsys.readouterr().out == "Created topic orders.\n"
