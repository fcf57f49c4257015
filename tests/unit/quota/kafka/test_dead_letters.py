"""Dead letters that are sent again."""

import pytest
from confluent_kafka import Message

from quota.admission.policy import Policy
from quota.errors import BadInput
from quota.kafka import dead_letters
from quota.kafka.dead_letters import StoredDeadLetter, read_dead_letters, valid_requests
from quota.records import codec
from quota.records.dead_letter import DeadLetter
from quota.records.record import Source
from tests.support.factories import request_json
from tests.support.measuring import traced_memory

SOURCE = Source("mutation-requests", 0, 7)
LETTER = StoredDeadLetter(b"alice", DeadLetter(error="x", value="{}", timestamp=0, source=SOURCE), 0)


def test_a_corrected_record_is_checked_before_anything_is_sent():
    valid_requests([(LETTER, request_json(1))], Policy())
    with pytest.raises(BadInput, match="mutation-requests-0-7 is still invalid: topics: missing"):
        valid_requests([(LETTER, b'{"request_id": "r", "operation": "CREATE_TOPICS", "api_version": 7}')], Policy())


def test_an_observed_request_that_is_too_old_by_now_is_rejected():
    value = request_json(1, observed={"at": 1, "error_codes": [0]})
    with pytest.raises(BadInput, match="more than seven days before the record"):
        valid_requests([(LETTER, value)], Policy())


def test_a_corrected_record_over_the_limit_is_rejected_instead_of_becoming_a_dead_letter_again():
    value = request_json(1)
    valid_requests([(LETTER, value)], Policy(max_bytes=len(value) + len(b"alice")))
    with pytest.raises(BadInput, match="bytes that a request may have"):
        valid_requests([(LETTER, value)], Policy(max_bytes=len(value)))


def letter_at(partition, offset):
    source = Source("mutation-requests", partition, offset)
    return codec.encode(DeadLetter(error="x", value="{}", timestamp=5, source=source))


def test_each_dead_letter_is_read_once_and_a_flood_of_them_takes_little_memory(base_settings, monkeypatch):
    """A crash of the job writes copies, and anybody may write what is no dead letter."""

    def messages(*_, since):
        assert since is None
        for start in range(0, 20_000, 500):
            for offset in [*range(start, start + 500), *range(start, start + 500)]:
                yield Message("letters", 0, 0, None, letter_at(offset % 2, offset // 2 + 2**40))
            yield Message("letters", 0, 0, None, b"{}")

    monkeypatch.setattr(dead_letters, "read_topic", messages)
    with traced_memory() as peak:
        ids = sum(1 for _ in read_dead_letters(base_settings))
    assert (ids, peak() < 1_000_000) == (20_000, True)
