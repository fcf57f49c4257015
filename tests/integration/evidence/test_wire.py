"""A short form of the codec's comparison with Kafka's generated classes."""

import math

import pytest

from jobs.spark.installation import jars_folder
from quota.wire.schemas import read_schemas
from tests.evidence.conformance.wire.comparison import Comparison, kinds
from tests.evidence.conformance.wire.oracle import kafka_oracle
from tests.support.wire.fuzz import fuzz
from tests.support.wire.messages import as_json

_TWICE = 2 * 620  # each message in each version


@pytest.fixture(scope="module")
def jars(base_settings):
    return jars_folder(base_settings.broker.jars)


@pytest.fixture(scope="module")
def oracle(jars):
    with kafka_oracle(jars) as kafka:
        yield kafka


@pytest.fixture
def comparison(oracle, jars):
    return _comparison(oracle, jars)


def _comparison(oracle, jars):
    return Comparison(oracle, kinds(read_schemas(jars)), seed=11)


def test_messages_of_all_versions_are_read_and_written_as_by_kafka(comparison):
    """Kafka reads the codec's messages, the codec Kafka's, and both translate messages between versions."""
    _compare_all(comparison)

    tally = comparison.tally
    assert len(tally.kinds) == 620
    assert tally.written == tally.made == _TWICE
    assert tally.rewritten + tally.not_carried == 620 + _TWICE
    assert tally.not_carried > 50


def test_malformed_messages_are_never_read_differently_than_by_kafka(comparison):
    """Both read the same message, both reject it, or only the codec does for one of the listed reasons."""
    comparison.compare_broken(3 * _TWICE)

    tally = comparison.tally
    assert min(tally.both_read, tally.both_refused) > 500
    assert tally.both_read + tally.both_refused + tally.stricter.total() == 3 * _TWICE
    assert tally.stricter.total() < 300


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_the_same_in_both(oracle, jars, value):
    """A damaged message may have one."""
    (kind,) = [kind for kind in kinds(read_schemas(jars)) if str(kind) == "AlterClientQuotasRequest v1"]
    change = {"key": "controller_mutation_rate", "value": value, "remove": False}
    entry = {"entity": [{"entityType": "user", "entityName": "alice"}], "ops": [change]}
    data = kind.codec.write({"entries": [entry], "validateOnly": False})
    assert as_json(kind.struct, kind.codec.read(data)) == oracle.parse(kind.name, kind.version, data).json


def test_the_codec_alone_survives_malformed_frames(jars):
    """Any error except Malformed fails; `make conformance` reads 100,000 frames."""
    fuzzed = fuzz(jars, seed=11, count=10_000)

    assert fuzzed.frames == 10_000
    assert min(fuzzed.read, fuzzed.refused, fuzzed.header_alone) > 500


def _compare_all(comparison):
    comparison.compare_defaults()
    comparison.compare_written(_TWICE)
    comparison.compare_made(_TWICE)
    comparison.compare_rewritten(_TWICE)
