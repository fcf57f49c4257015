"""A short form of the codec's comparison with Kafka's generated classes."""

import math
from dataclasses import replace

import pytest

from jobs.spark.installation import jars_folder
from quota.wire import reader, structs, writer
from quota.wire.primitives import read_tags, write_tags
from quota.wire.schemas import read_schemas
from quota.wire.structs import _default, _field, _struct, width
from quota.wire.writer import _is_set
from tests.evidence.conformance.bucket.comparison import MismatchError
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


MUTANTS = {
    "unknown tags are dropped": (
        reader,
        "read_tags",
        lambda data, at, left: ([], *read_tags(data, at, left)[1:]),
    ),
    "unknown tags before the known ones": (
        writer,
        "write_tags",
        lambda known, unknown: (
            bytes([len(known) + len(unknown)]) + write_tags((), unknown)[1:] + write_tags(known, ())[1:]
        ),
    ),
    "tagged fields that are their default": (
        writer,
        "_is_set",
        lambda source, field, value: "True" if field.tag is not None else _is_set(source, field, value),
    ),
    "hexadecimal defaults as 0": (
        structs,
        "_default",
        lambda kind, text, **rest: 0 if text.startswith("0x") else _default(kind, text, **rest),
    ),
    "set fields of other versions are dropped": (
        structs,
        "_struct",
        lambda *args, **rest: replace(_struct(*args, **rest), refused=()),
    ),
    "nothing is nullable": (
        structs,
        "_field",
        lambda *args, **rest: replace(_field(*args, **rest), nullable=False),
    ),
    "lengths of flexible versions as of the others": (
        structs,
        "_field",
        lambda *args, **rest: replace(_field(*args, **rest), compact=False),
    ),
    "numbers of another width": (structs, "width", lambda formats: 4 if formats == "q" else width(formats)),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_comparison_detects_a_faulty_codec(oracle, jars, monkeypatch, mutant):
    """Each way of being wrong is a mismatch."""
    module, name, broken = MUTANTS[mutant]
    for each in (module, reader):
        if hasattr(each, name):
            monkeypatch.setattr(each, name, broken)
    if name in getattr(module, "_NAMES", {}):
        monkeypatch.setitem(vars(module)["_NAMES"], name, broken)

    comparison = _comparison(oracle, jars)
    with pytest.raises(MismatchError):
        _compare_all(comparison)


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
