"""The candidates of a backtest, as the command line names them."""

import codecs

import pytest

from jobs.whatif.candidates import parse_candidates
from quota.algorithms.deduplication import Deduplication
from quota.algorithms.token_bucket import TokenBucket
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadInput
from quota.records.quota import Window
from quota.settings import load_settings
from quota.whatif.rates import RateQuota

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
    found = candidates(*texts, settings=["repeats.window_seconds=2"])[1:]  # which a rate does not support
    assert [each.name for each in found] == ["window-num=3", "old"]
    assert [each.quotas for each in found] == [RECORDED, RECORDED]
    assert found[0].algorithm == TokenBucket(Window(num=3), Deduplication(window_ms=2000))
    assert isinstance(found[1].algorithm, RateQuota)
    assert found[1].algorithm.window == Window(size_seconds=2)


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
    found = candidates(f"quotas={tmp_path / name}")[1].quotas
    limits = {at: found.resolve("alice", "app", at).limit for at in rates}
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
