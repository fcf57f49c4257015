"""A file of requests for a what-if: the lines that count, and the errors of the others."""

import codecs
import io
import logging

import pytest

from jobs.whatif import backtest, recommend
from jobs.whatif.candidates import parse_candidates
from jobs.whatif.request_file import FileRequests, open_requests
from quota.algorithms.deduplication import Deduplication
from quota.algorithms.token_bucket import TokenBucket
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadInput, MutationQuotaError
from quota.records.quota import Window
from quota.settings import load_settings
from quota.whatif.rates import RateQuota
from quota.whatif.recommendation import SizingInput, Tenancy
from tests.support.factories import request_at as at
from tests.support.object_store import store_settings


@pytest.fixture
def read(base_settings, tmp_path):
    """Decisions on the requests of a file of these lines."""

    def _read(*lines, **times):
        (tmp_path / "requests.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
        return list(FileRequests(base_settings, str(tmp_path / "requests.jsonl"), **times))

    return _read


def test_requests_of_a_file_become_decisions_that_admit_everything(read):
    first, second = read(at(1000, 60, 1, client_id="a", user="bob"), at(2000, 99, validate_only=True))
    assert (first.user, first.client_id, first.timestamp, first.source.offset) == ("bob", "a", 1000, 0)
    assert [(topic.partitions, topic.error_code) for topic in first.topics] == [(60, 0), (1, 0)]
    assert (first.quota, first.retry_at) == (None, 1000)
    assert (second.source.offset, second.validate_only) == (1, True)


def test_requests_can_be_limited_to_a_period(read):
    lines = [at(ms, 1) for ms in (999, 1000, 1999, 2000)]
    assert [request.timestamp for request in read(*lines, since=1000, until=2000)] == [1000, 1999]


def test_standard_input_can_be_read_again(base_settings, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(at(7, 1) + b"\n" + at(8, 1))))
    with open_requests(base_settings, "-") as requests:
        assert [request.timestamp for request in requests] == [request.timestamp for request in requests] == [7, 8]


def test_invalid_requests_do_not_count_and_are_reported_in_one_line(read, caplog):
    with caplog.at_level(logging.WARNING):
        requests = read(at(0, 1), b"no", at(0, 1), b'{"timestamp": 7}')
    assert [request.source.offset for request in requests] == [0, 2]
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


RECORDED = CallbackTimeline()
YAML = b"quotas:\n- {entity: {user: alice}, controller_mutation_rate: 7}\n"
LOG = b'{"entity": {"user": "alice"}, "controller_mutation_rate": 7, "effective_at": 100}\n'


def candidates(*texts, settings=()):
    return parse_candidates(texts, RECORDED, load_settings(settings, environment={}, with_default_file=False))


def test_the_recorded_quotas_come_first_as_they_are_enforced():
    (only,) = candidates(settings=["repeats.window_seconds=2", "quota.window_num=5"])
    assert (only.name, only.quotas) == ("recorded quotas", RECORDED)
    assert only.algorithm == TokenBucket(Window(num=5), Deduplication(window_ms=2000))


def test_unset_parts_of_a_candidate_are_as_recorded():
    texts = "window-num=3", "name=old,algorithm=sampled-rate,window-size-seconds=2"
    parsed = candidates(*texts, settings=["repeats.window_seconds=2"])[1:]  # which a rate does not support
    assert [candidate.name for candidate in parsed] == ["window-num=3", "old"]
    assert [candidate.quotas for candidate in parsed] == [RECORDED, RECORDED]
    assert parsed[0].algorithm == TokenBucket(Window(num=3), Deduplication(window_ms=2000))
    assert isinstance(parsed[1].algorithm, RateQuota)
    assert parsed[1].algorithm.window == Window(size_seconds=2)


def test_a_file_of_requests_has_no_recorded_quotas(tmp_path):
    (tmp_path / "q.yaml").write_bytes(YAML)
    settings = load_settings(environment={}, with_default_file=False)
    (only,) = parse_candidates([f"name=seven,quotas={tmp_path / 'q.yaml'}"], None, settings)
    assert only.name == "seven"
    with pytest.raises(BadInput, match="--candidate window-num=3: a file of requests needs quotas; add"):
        parse_candidates(["window-num=3"], None, settings)


@pytest.mark.parametrize(
    ("name", "text", "rates"),
    [
        ("q.yaml", YAML, {0: 7, 100: 7}),
        ("q.jsonl", LOG, {0: None, 100: 7}),
        ("described.json", b'{"quotas": [' + LOG + b"]}", {0: None, 100: 7}),
        ("of-windows.jsonl", codecs.BOM_UTF8 + LOG, {0: None, 100: 7}),
    ],
)
def test_quotas_are_read_as_apply_and_simulate_read_them(tmp_path, name, text, rates):
    (tmp_path / name).write_bytes(text)
    quotas = candidates(f"quotas={tmp_path / name}")[1].quotas
    limits = {at: quotas.resolve("alice", "app", at).limit for at in rates}
    assert {at: limit and limit.quota.rate for at, limit in limits.items()} == rates


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tight.yaml", "--candidate tight.yaml: expected KEY=VALUE,... with each of name, quotas, window-num, "),
        ("window-num=1,window-num=2", "at most once"),
        ("window-num=0", "--candidate window-num=0: window-num: expected a whole number above 0"),
        ("window-size-seconds=1.5", "window-size-seconds: expected a whole number above 0"),
        ("algorithm=bucket", "algorithm: expected one of token-bucket, sampled-rate, spread-rate"),
        ("quotas=nowhere.yaml", "nowhere.yaml: No such file or directory"),
        ("name=recorded quotas", "two candidates are called 'recorded quotas'"),
    ],
)
def test_an_unusable_candidate_is_reported(text, message):
    with pytest.raises(BadInput) as caught:
        candidates(text)
    assert message in str(caught.value)


def run_backtest(settings):
    backtest.backtest(settings, [], None, None)


def run_recommend(settings):
    sizing = SizingInput(100.0, 0.2, None, settings.quota.window)
    recommend.recommend(settings, sizing, Tenancy.USER)


@pytest.mark.parametrize("command", [run_backtest, run_recommend])
def test_a_store_or_tables_that_are_not_there_are_named_and_no_folder_is_made(command, tmp_path):
    with pytest.raises(MutationQuotaError, match=r"http://127\.0\.0\.1:1 does not answer"):
        command(store_settings(1))
    settings = load_settings([f"storage.root={tmp_path / 'root'}"], environment={}, with_default_file=False)
    with pytest.raises(
        MutationQuotaError, match=r"^there is no table .*/(decisions|quota_changes): run mutation-quota audit first"
    ):
        command(settings)
    assert list(tmp_path.iterdir()) == []
