"""A short form of `make conformance`: the project compared with Kafka's own classes."""

import json

import pytest

import quota.algorithms.token_bucket
from jobs.installation import jars_folder
from quota.algorithms.kafka_rate import RateMetric
from quota.algorithms.token_bucket import MAX_THROTTLE_MS, _before, throttle_ms
from quota.records.levels import Limit
from quota.records.record import BEGINNING
from tests.evidence.conformance.__main__ import PAGE, SMOKE, compare_buckets, compare_codec
from tests.evidence.conformance.bucket.comparison import MismatchError, compare, half_up
from tests.evidence.conformance.bucket.differences import CASES
from tests.evidence.conformance.bucket.oracle import kafka_oracle
from tests.evidence.conformance.bucket.rates import kafkas_rates, streams
from tests.evidence.conformance.bucket.sequences import sequences
from tests.evidence.report import as_json, render


@pytest.fixture(scope="module")
def oracle(base_settings):
    with kafka_oracle(jars_folder(base_settings.broker.jars)) as kafka:
        yield kafka


MUTANTS = {
    "throttle times rounded half up": (
        quota.algorithms.token_bucket,
        "throttle_ms",
        lambda tokens, _stored, rate, _late_ms: max(0, min(MAX_THROTTLE_MS, half_up(-tokens / rate * 1000))),
    ),
    "no limit to what a bucket gains": (
        quota.algorithms.token_bucket,
        "gain",
        lambda tokens, rate, elapsed_ms, _burst: tokens + max(0, elapsed_ms) / 1000 * rate,
    ),
    "a new rate for all the time since the last use": (
        quota.algorithms.token_bucket,
        "_before",
        lambda bucket, limit, *rest: _before(bucket, Limit(limit.quota, BEGINNING), *rest),
    ),
    "a clock that steps back stops the bucket": (
        quota.algorithms.token_bucket,
        "clock_of",
        lambda _source, _observed: object(),
    ),
    "no debt is so small that it counts as none": (
        quota.algorithms.token_bucket,
        "in_debt",
        lambda tokens, _stored: tokens < 0,
    ),
    "nothing admitted at zero": (quota.algorithms.token_bucket, "in_debt", lambda tokens, _stored: tokens <= 0),
    "no cap": (
        quota.algorithms.token_bucket,
        "throttle_ms",
        lambda tokens, stored, rate, late_ms: (
            MAX_THROTTLE_MS - 1
            if -tokens / rate * 1000 > MAX_THROTTLE_MS
            else throttle_ms(tokens, stored, rate, late_ms)
        ),
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_comparison_detects_a_faulty_bucket(oracle, monkeypatch, mutant):
    """Each way of being wrong is a mismatch."""
    monkeypatch.setattr(*MUTANTS[mutant])

    with pytest.raises(MismatchError):
        compare(oracle, sequences(seed=11, count=120))


def test_the_metric_of_a_rate_equals_kafkas_to_the_last_bit(base_settings):
    """Its samples, and the time that it divides by: charges at once, at the edges of windows, after long pauses."""
    inputs = list(streams(seed=11, count=100))
    kafkas_metrics = list(kafkas_rates(jars_folder(base_settings.broker.jars), inputs))

    assert sum(map(len, kafkas_metrics)) > 5_000
    for stream, kafkas in zip(inputs, kafkas_metrics, strict=True):
        metric = RateMetric(stream.window)
        for (at, cost), kafka in zip(stream.charges, kafkas, strict=True):
            metric = metric.record(cost, at)
            assert metric.measure(at) == kafka


def test_each_section_of_the_program_is_on_its_page(base_settings):
    jars = jars_folder(base_settings.broker.jars)
    results = {**compare_codec(jars, SMOKE, seed=11), **compare_buckets(jars, SMOKE, seed=11)}

    bucket, wire, frames = results["bucket"], results["wire"], results["wire"]["frames"]
    assert bucket["ended_early"] <= 1
    assert min(bucket[name] for name in ("rejected", "equal_to_the_ms", "rounded_up", "capped")) > 1000
    assert min(bucket[name] for name in ("steps_back", "changes", "within_rounding")) > 10
    assert len(results["differences"]) == len(CASES) + 3
    assert (wire["kinds"], wire["written"], wire["made"]) == (640, SMOKE.messages, SMOKE.messages)
    assert wire["rewritten"] + wire["not_carried"] == 640 + SMOKE.messages  # those without values, too
    stricter = sum(reason["messages"] for reason in wire["stricter"])
    assert wire["both_read"] + wire["both_rejected"] + stricter == SMOKE.messages
    assert min(wire["both_read"], wire["both_rejected"], wire["not_carried"]) > 50
    assert stricter < 200
    assert min(frames["read"], frames["rejected"], frames["header_alone"]) > 100
    page = render(PAGE.read_text(), json.loads(as_json(results)))
    assert "| sequences | 60 |" in page
    assert "| damaged frames | 1,000 |" in page
