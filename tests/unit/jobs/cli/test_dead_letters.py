"""Dead letters that are listed and sent again, in place of a cluster from a list."""

import json

import pytest
from confluent_kafka import Message
from typer.testing import CliRunner

from jobs.cli.options import ConfirmOptions
from jobs.cli.program import app
from quota.errors import MutationQuotaError, NotFound
from quota.kafka import dead_letters
from quota.kafka.dead_letters import StoredDeadLetter
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.record import Source
from tests.support.factories import request_json

HOUR = 3_600_000


def letter(offset, operation):
    value = request_json(1, operation=operation).decode()
    source = Source("mutation-requests", 0, offset)
    fields = {"error": "callback failed", "value": value, "timestamp": offset * HOUR, "source": source}
    return StoredDeadLetter(b"alice", DeadLetter(**fields), offset * HOUR)


LETTERS = [letter(1, "CREATE_TOPICS"), letter(2, "DELETE_TOPICS"), letter(3, "DELETE_TOPICS")]


@pytest.fixture
def sent(monkeypatch):
    """The ids of the dead letters that were sent."""
    ids = []
    monkeypatch.setattr(dead_letters, "read_dead_letters", lambda *_: (stored for stored in LETTERS))
    monkeypatch.setattr(dead_letters, "send", lambda _, letters: ids.extend(stored.letter_id for stored, _ in letters))
    monkeypatch.setattr(ConfirmOptions, "check", lambda *_: None)
    return ids


def command(*args, answer=None):
    done = CliRunner().invoke(app, ["dead-letters", *args], input=answer)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_several_are_sent_after_a_question_with_their_count_and_operations(sent):
    question = "Resend 3 requests (1 CREATE_TOPICS, 2 DELETE_TOPICS)?"
    with pytest.raises(MutationQuotaError, match="nothing was changed"):
        command("resend", "--error", "callback", answer="n\n")
    assert sent == []
    done = command("resend", "--error", "callback", answer="y\n")
    assert question in done.stderr
    assert sent == ["mutation-requests-0-1", "mutation-requests-0-2", "mutation-requests-0-3"]


@pytest.mark.usefixtures("sent")
def test_they_are_selected_by_their_period_whose_end_is_not_included():
    done = command("list", "--from", "1970-01-01T02:00", "--to", "1970-01-01T03:00", "--output", "json")
    assert [listed["id"] for listed in json.loads(done.stdout)["dead_letters"]] == ["mutation-requests-0-2"]
    done = command("resend", "--to", "1970-01-01T02:00", "--yes")
    assert done.output == "Resent mutation-requests-0-1.\n"


def test_only_what_can_be_asked_for_is_read(monkeypatch):
    """From an hour before the period on, because clocks of brokers differ, and up to the letter that is asked for."""
    read = []

    def messages(*_, since):
        read.append(since)
        for stored in LETTERS:
            read.append(stored.letter_id)
            yield Message("letters", 0, 0, None, codec.encode(stored.letter))

    monkeypatch.setattr(dead_letters, "read_topic", messages)
    command("list", "--from", "1970-01-01T02:00")
    assert read.pop(0) == HOUR
    read.clear()
    assert command("describe", "mutation-requests-0-2").exit_code == 0
    assert read == [None, "mutation-requests-0-1", "mutation-requests-0-2"]


def test_a_dead_letter_is_a_line_with_a_long_error_cut(monkeypatch):
    fields = {"value": '{"user": "alice"}', "timestamp": HOUR, "source": Source("mutation-requests", 0, 7)}
    stored = StoredDeadLetter(None, DeadLetter(error="e" * 101, **fields), HOUR)
    monkeypatch.setattr(dead_letters, "read_dead_letters", lambda *_: (stored for stored in [stored]))
    assert [" ".join(line.split()) for line in command("list").stdout.splitlines()] == [
        "RECEIVED ID USER / CLIENT-ID ERROR",
        f"1970-01-01T01:00:00.000Z mutation-requests-0-7 alice / - {'e' * 97}...",
    ]


@pytest.mark.usefixtures("sent")
def test_an_id_without_a_dead_letter_is_not_found():
    with pytest.raises(NotFound, match="x-0-0: no such dead letter in mutation-dead-letters"):
        command("describe", "x-0-0")


@pytest.mark.usefixtures("sent")
def test_a_selection_without_dead_letters_is_not_found():
    with pytest.raises(NotFound, match="no such dead letters"):
        command("list", "--error", "nothing like this")


def test_a_list_without_dead_letters_says_so(monkeypatch):
    monkeypatch.setattr(dead_letters, "read_dead_letters", lambda *_: (stored for stored in []))
    assert command("list").output == "No dead letters.\n"
    assert json.loads(command("list", "--output", "json").output)["dead_letters"] == []


@pytest.mark.parametrize(
    ("value", "topic", "sender"),
    [
        ('{"user": "alice", "client_id": "app"}', "mutation-requests", ["alice", "app"]),
        ('{"user": "", "client_id": 7}', "mutation-requests", [None, None]),
        ('{"user": "alice"}', "mutation-requests.bob", ["bob", None]),
        *[(value, "mutation-requests", [None, None]) for value in ("", "[1]", "{", "7", "[" * 100_000)],
    ],
)
def test_the_sender_is_whom_its_topic_or_the_record_names(monkeypatch, value, topic, sender):
    stored = StoredDeadLetter(
        None, DeadLetter(error="invalid", value=value, timestamp=5, source=Source(topic, 0, 1)), 5
    )
    monkeypatch.setattr(dead_letters, "read_dead_letters", lambda *_: (stored for stored in [stored]))
    own_topics = ("--set", "topics.identity=topic") if topic.endswith("bob") else ()
    (listed,) = json.loads(command("list", *own_topics, "--output", "json").stdout)["dead_letters"]
    assert ([listed["user"], listed["client_id"]], listed["error"]) == (sender, "invalid")
