"""A file of requests for a what-if: the lines that count, and the errors of the others."""

import logging

import msgspec
import pytest

from jobs.whatif.requests import read_requests
from quota.errors import BadInput, MutationQuotaError
from quota.records.decision import Decision
from tests.support.factories import request_at as at


@pytest.fixture
def read(base_settings, tmp_path):
    """Decisions on the requests of a file of these lines."""

    def _read(*lines, **times):
        (tmp_path / "requests.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
        table = read_requests(base_settings, str(tmp_path / "requests.jsonl"), **times)
        return [msgspec.json.decode(row, type=Decision) for row in table["decision"].to_pylist()]

    return _read


def test_requests_of_a_file_become_decisions_that_admit_everything(read):
    first, second = read(at(1000, 60, 1, client_id="a", user="bob"), at(2000, 99, validate_only=True))
    assert (first.user, first.client_id, first.timestamp, first.source.offset) == ("bob", "a", 1000, 0)
    assert [(each.partitions, each.error_code) for each in first.topics] == [(60, 0), (1, 0)]
    assert (first.quota, first.retry_at) == (None, 1000)
    assert (second.source.offset, second.validate_only) == (1, True)


def test_requests_can_be_limited_to_a_period(read):
    lines = [at(ms, 1) for ms in (999, 1000, 1999, 2000)]
    assert [each.timestamp for each in read(*lines, since=1000, until=2000)] == [1000, 1999]


def test_more_than_a_batch_is_read_whole(read):
    assert [each.source.offset for each in read(*[at(0, 1)] * 10_001)] == list(range(10_001))


def test_invalid_requests_do_not_count_and_are_reported_in_one_line(read, caplog):
    with caplog.at_level(logging.WARNING):
        found = read(at(0, 1), b"no", at(0, 1), b'{"timestamp": 7}')
    assert [each.source.offset for each in found] == [0, 2]
    (logged,) = caplog.messages
    assert "requests.jsonl: ignored 2 of 4 lines, which are not requests; line 2: value: not JSON" in logged


@pytest.mark.parametrize(
    ("lines", "error", "message"),
    [
        ([], BadInput, "requests.jsonl: empty"),
        ([b"no", b"{}"], BadInput, "requests.jsonl: no line is a request; line 1: value: not JSON"),
        ([at(2000, 1)], MutationQuotaError, "requests.jsonl: it has 1 request, and none in that period"),
    ],
)
def test_a_file_without_requests_is_an_error(read, lines, error, message):
    with pytest.raises(error, match=message):
        read(*lines, until=2000)
