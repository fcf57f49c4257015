"""A file of buckets: read exactly as written, or rejected."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.buckets.saved import BucketFileHeader, SavedBucket, SavedBuckets, read_buckets
from quota.errors import BadInput
from schemas.buckets import STATE, STATE_VERSION

HEADER = BucketFileHeader(STATE_VERSION, 1, {"requests": "id"}, {"requests": {"0": 7, "1": 0}})
BUCKET = SavedBucket('["user","alice"]', -0.1, 5, 1 / 3)

numbers = st.floats(allow_nan=False, allow_infinity=False)
buckets = st.builds(
    SavedBucket, st.text(), numbers, st.integers(0, 2**62), numbers, st.none() | numbers, more=st.none() | st.binary()
)


def write(saved, file):
    with file.open("wb") as out:
        saved.write(out)


@given(st.lists(buckets))
def test_buckets_are_read_exactly_as_written(tmp_path_factory, saved):
    file = tmp_path_factory.mktemp("buckets") / "buckets.jsonl"
    header = BucketFileHeader(HEADER.state_version, len(saved), HEADER.topics, HEADER.positions)
    write(SavedBuckets(header, saved), file)
    export = read_buckets(file)
    assert (export.header, export.buckets) == (header, saved)
    assert [repr(bucket) for bucket in export.buckets] == [repr(bucket) for bucket in saved]  # -0.0 is not 0.0


def test_its_fields_are_those_of_the_state():
    assert SavedBucket.__struct_fields__ == ("bucket", *STATE.names)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "buckets.jsonl"
    write(SavedBuckets(HEADER, [BUCKET]), path)
    return path


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda text: text.split(b"\n")[0], "is truncated: it has 0 of 1 buckets; export again"),
        (lambda text: text[:-9], "was not written by buckets export, or was changed: "),
        (lambda text: text.replace(b'"K"', b'"k"'), "was not written by buckets export"),
        (lambda _: b"", "was not written by buckets export"),
        (
            lambda text: text.replace(b'"state_version":%d' % STATE_VERSION, b'"state_version":99'),
            f"has buckets of version 99, and this program uses version {STATE_VERSION}; export and load",
        ),
    ],
)
def test_an_invalid_file_is_rejected(file, change, error):
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(BadInput, match=re.escape(error)):
        read_buckets(file)
