"""Buckets in a file: what comes back, and what is said of a file that is none."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.buckets.saved import SavedAt, SavedBucket, SavedBuckets, read_buckets
from quota.errors import BadInput
from schemas.buckets import STATE, STATE_VERSION

AT = SavedAt(STATE_VERSION, 1, {"requests": "id"}, {"requests": {"0": 7, "1": 0}})
BUCKET = SavedBucket('["user","alice"]', -0.1, 5, 1 / 3)

numbers = st.floats(allow_nan=False, allow_infinity=False)
buckets = st.builds(
    SavedBucket, st.text(), numbers, st.integers(0, 2**62), numbers, st.none() | numbers, more=st.none() | st.binary()
)


@given(st.lists(buckets))
def test_all_comes_back_to_the_last_bit(tmp_path_factory, saved):
    file = tmp_path_factory.mktemp("buckets") / "buckets.jsonl"
    at = SavedAt(AT.state_version, len(saved), AT.topics, AT.positions)
    SavedBuckets(at, saved).write(file)
    found = read_buckets(file)
    assert (found.at, found.buckets) == (at, saved)
    assert [repr(each) for each in found.buckets] == [repr(each) for each in saved]  # -0.0 is not 0.0


def test_its_fields_are_those_of_the_state():
    assert SavedBucket.__struct_fields__ == ("bucket", *STATE.names)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "buckets.jsonl"
    SavedBuckets(AT, [BUCKET]).write(path)
    return path


def test_nothing_is_written_over(file):
    with pytest.raises(BadInput, match="is there already; name another file"):
        SavedBuckets(AT, [BUCKET]).write(file)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.split(b"\n")[0], "is cut short: it holds 0 buckets of 1; export again"),
        (lambda text: text[:-9], "was not written by buckets export, or was changed since: "),
        (lambda text: text.replace(b'"K"', b'"k"'), "was not written by buckets export"),
        (lambda _: b"", "was not written by buckets export"),
        (
            lambda text: text.replace(b'"state_version":%d' % STATE_VERSION, b'"state_version":99'),
            f"holds buckets of version 99, and this program keeps version {STATE_VERSION}; export and begin anew",
        ),
    ],
)
def test_a_file_that_is_none_is_told(file, change, said):
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(BadInput, match=re.escape(said)):
        read_buckets(file)


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(BadInput, match=r"x\.jsonl: No such file or directory"):
        read_buckets(tmp_path / "x.jsonl")
