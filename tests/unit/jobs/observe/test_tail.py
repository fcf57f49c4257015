"""A log that is followed while it is written and rotated."""

import gzip
import os
import random
from datetime import UTC
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

from jobs.observe.tail import LogPosition, LogTail, check_log
from quota.errors import BadInput
from tests.support.request_log import created, fetched
from tests.support.wrapped_logs import AT


def append(log, *lines):
    with log.open("ab") as file:
        file.write(b"".join(lines))


_tails = []


@pytest.fixture(autouse=True)
def _logs_are_closed():
    yield
    while _tails:
        _tails.pop().close()


def follow(log, place=None, *, from_beginning=True):
    tail = LogTail(log, place, from_beginning=from_beginning)
    _tails.append(tail)
    return tail


def read_all(tail):
    blocks = []
    while block := tail.read():
        blocks.append(block)
    return b"".join(blocks)


def followed(folder, *lines):
    """Return a log of these lines, and a tail that has read them."""
    log = folder / "log"
    append(log, *lines)
    tail = follow(log)
    assert read_all(tail) == b"".join(lines)
    return log, tail


def rotate(log, name):
    log.rename(log.with_name(name))
    log.touch()


def test_lines_are_read_as_they_are_written_and_only_whole_ones(tmp_path):
    log = tmp_path / "log"
    append(log, b"one\n", b"tw")
    tail = follow(log)
    assert read_all(tail) == b"one\n"
    append(log, b"o\n")
    assert read_all(tail) == b"two\n"
    assert read_all(tail) == b""


def test_a_log_that_was_not_followed_before_is_read_from_its_end(tmp_path):
    log = tmp_path / "log"
    append(log, b"before\n", b"cut ")
    tail = follow(log, from_beginning=False)
    append(log, b"off\n", b"after\n")
    assert read_all(tail) == b"cut off\nafter\n"


def test_a_rotated_log_is_read_to_its_end_first(tmp_path):
    log, tail = followed(tmp_path, b"one\n")
    append(log, b"two\n")
    rotate(log, "log.2026-11-22-17")
    append(log.with_name("log.2026-11-22-17"), b"three\n")
    append(log, b"four\n")
    assert read_all(tail) == b"two\nthree\nfour\n"


def test_two_rotations_between_two_polls_lose_nothing(tmp_path):
    log, tail = followed(tmp_path, b"one\n")
    for number, line in enumerate((b"two\n", b"three\n")):
        rotate(log, f"log.{number}")
        os.utime(tmp_path / f"log.{number}", ns=(number, 10**18 + number))
        append(log, line)
    assert read_all(tail) == b"two\nthree\n"


@pytest.mark.parametrize("new", [b"new\n", b"a new line, longer than before\nand one more\n"])
def test_a_log_truncated_in_place_is_read_to_the_end_of_its_copy_first(tmp_path, new):
    log, tail = followed(tmp_path, b"one\n", b"two\n")
    append(log, b"three\n")
    log.with_name("log.1").write_bytes(log.read_bytes())
    log.write_bytes(new)
    os.utime(log, ns=(2 * 10**18, 2 * 10**18))
    assert read_all(tail) == b"three\n" + new


HEADER, NEW = b"# the same in each file\n", b"".join(b"new %d\n" % number for number in range(20))


def renamed(log):
    log.rename(log.with_name("log.1"))
    log.write_bytes(HEADER + NEW)


def copied_and_truncated(log):
    log.with_name("log.1").write_bytes(log.read_bytes())
    log.write_bytes(HEADER + NEW)


def compressed(log):
    log.with_name("log.1.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    log.write_bytes(HEADER + NEW)


def compressed_and_truncated(log):
    log.with_name("log.1.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.write_bytes(HEADER + NEW)


def twice(log):
    log.rename(log.with_name("log.2"))
    log.write_bytes(HEADER + NEW[:60])
    log.rename(log.with_name("log.1"))
    log.write_bytes(NEW[60:])


def while_compressing(log):
    (log.parent / "log.1.gz").write_bytes(gzip.compress(log.read_bytes())[:-9])
    renamed(log)


@pytest.mark.parametrize("is_down", [True, False], ids=["after a restart", "while running"])
@pytest.mark.parametrize("begin", [HEADER, HEADER + b"old\n" * 5, HEADER + b"old\n" * 5000])
@pytest.mark.parametrize(
    "rotation", [renamed, copied_and_truncated, compressed, compressed_and_truncated, twice, while_compressing]
)
def test_files_that_begin_alike_are_told_apart_after_each_rotation(tmp_path, rotation, begin, is_down):
    append(tmp_path / "log.0", HEADER, b"read long ago\n")
    os.utime(tmp_path / "log.0", ns=(1, 1))
    if rotation in {copied_and_truncated, compressed_and_truncated}:
        begin += b"a line of its own\n"  # with the same bytes up to the position, nothing tells that it was truncated
    log, tail = followed(tmp_path, begin)
    append(log, b"rest\n")
    rotation(log)
    tail = follow(log, tail.place) if is_down else tail
    assert read_all(tail) == b"rest\n" + HEADER + NEW


@pytest.mark.parametrize("size", [10, 60, 200])
def test_a_file_with_another_content_before_the_position_is_another_file(tmp_path, caplog, size):
    """Truncated without a copy, or the old file is deleted and the new one has its inode."""
    log, tail = followed(tmp_path, HEADER, b"old\n" * 10)
    log.write_bytes((HEADER + NEW)[:size])
    assert read_all(follow(log, tail.place)) == (HEADER + NEW)[: (HEADER + NEW).rfind(b"\n", 0, size) + 1]
    assert "earlier requests are not observed" in caplog.text


def test_a_position_of_an_older_program_is_found_by_the_first_line(tmp_path):
    append(tmp_path / "log.1", HEADER, b"read\n")
    log, tail = followed(tmp_path, HEADER, b"old\n")
    append(log, b"new\n")
    assert read_all(follow(log, LogPosition(tail.place.first_line, tail.place.offset))) == b"new\n"


@pytest.mark.parametrize("read", [HEADER + b"old\n", b""])
def test_a_position_that_many_files_have_is_that_of_the_newest_one_if_the_log_does_not(tmp_path, read):
    append(tmp_path / "log.2", HEADER, b"read long ago\n")
    os.utime(tmp_path / "log.2", ns=(1, 1))
    log, tail = followed(tmp_path, read)
    append(log, b"new\n")
    (tmp_path / "log.1").write_bytes(log.read_bytes())
    place = LogPosition(tail.place.first_line, tail.place.offset, inode=0 if read else -1)
    log.unlink()
    if read:
        append(log, HEADER)
    assert read_all(follow(log, place)) == b"new\n" + (HEADER if read else b"")


def test_a_log_that_is_rotated_while_its_position_is_looked_for_is_found(tmp_path, monkeypatch):
    log, tail = followed(tmp_path, b"one\n")
    append(log, b"two\n")
    rotations = [partial(rotate, log, "log.1")]

    def listed(folder, pattern, glob=Path.glob):
        files = list(glob(folder, pattern))
        if rotations:
            rotations.pop()()
        return files

    monkeypatch.setattr(Path, "glob", listed)
    assert read_all(follow(log, tail.place)) == b"two\n"


def test_a_compressed_file_that_begins_otherwise_is_not_read_to_the_position(tmp_path):
    log, tail = followed(tmp_path, b"one\n", b"two\n" * 50_000)
    (tmp_path / "log.1.gz").write_bytes(gzip.compress(b"other\n" + random.Random(5).randbytes(400_000)))
    with patch("gzip.GzipFile.read", autospec=True, side_effect=gzip.GzipFile.read) as read:
        follow(log, tail.place)
    assert read.call_count == 1


def test_a_log_that_was_empty_is_found_by_its_inode(tmp_path):
    log, tail = followed(tmp_path)
    append(log, b"one\n")
    rotate(log, "log.1")
    append(log, b"two\n")
    assert read_all(follow(log, tail.place, from_beginning=False)) == b"one\ntwo\n"


def test_a_log_truncated_without_a_copy_is_reported(tmp_path, caplog):
    log, tail = followed(tmp_path, b"one\n", b"two\n")
    log.write_bytes(b"new\n")
    os.utime(log, ns=(2 * 10**18, 2 * 10**18))
    assert read_all(tail) == b"new\n"
    assert "was truncated, and there is no copy" in caplog.text


@pytest.mark.parametrize("keep_plain", [True, False])
def test_a_file_that_is_compressed_after_its_rotation_is_not_read_again(tmp_path, keep_plain):
    log, tail = followed(tmp_path, b"one\n")
    append(log, b"two\n")
    rotate(log, "log.1")
    (tmp_path / "log.1.gz").write_bytes(gzip.compress((tmp_path / "log.1").read_bytes()))
    os.utime(tmp_path / "log.1.gz", ns=(2 * 10**18, 2 * 10**18))
    if not keep_plain:
        (tmp_path / "log.1").unlink()
    append(log, b"three\n")
    assert read_all(tail) == b"two\nthree\n"


def test_a_rotation_to_an_empty_file_is_a_position_too(tmp_path):
    log, first = followed(tmp_path, b"one\n")
    rotate(log, "log.1")
    assert read_all(first) == b""
    append(log, b"two\n")
    assert read_all(follow(log, first.place, from_beginning=False)) == b"two\n"


def test_a_line_longer_than_a_block_is_read_whole_and_one_that_is_too_long_is_skipped(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("jobs.observe.tail._BLOCK_BYTES", 10)
    monkeypatch.setattr("jobs.observe.tail._MAX_LINE_BYTES", 100)
    log = tmp_path / "log"
    append(log, b"x" * 50 + b"\n", b"y" * 500 + b"\n", b"z\n")
    tail = follow(log)
    assert read_all(tail) == b"x" * 50 + b"\nz\n"
    assert caplog.messages == [f"{log}: skipped a line of more than 0 MB"]
    assert tail.place.offset == log.stat().st_size


def test_a_first_line_that_is_too_long_is_skipped_once(tmp_path, monkeypatch):
    monkeypatch.setattr("jobs.observe.tail._MAX_LINE_BYTES", 100_000)
    log, tail = followed(tmp_path)
    append(log, b"x" * 2_000_000 + b"\n", b"one\n")
    assert read_all(tail) == b"one\n"
    append(log, b"two\n")
    os.utime(log, ns=(2 * 10**18, 2 * 10**18))
    assert read_all(tail) == b"two\n"
    assert read_all(follow(log, tail.place)) == b""


def test_a_restart_finds_its_position_in_a_rotated_copy_even_if_compressed(tmp_path):
    for compress in (bytes, gzip.compress):
        folder = tmp_path / compress.__name__
        folder.mkdir()
        log, first = followed(folder, b"one\n", b"two\n")
        append(log, b"three\n")
        rotate(log, "log.1")
        (folder / "log.1").write_bytes(compress((folder / "log.1").read_bytes()))
        append(log, b"four\n")
        os.utime(folder / "log.1", ns=(1, 1))
        assert read_all(follow(log, first.place)) == b"three\nfour\n"


def test_a_lost_position_is_reported_and_the_log_is_read_from_its_first_line(tmp_path, caplog):
    log = tmp_path / "log"
    append(log, b"one\n")
    assert read_all(follow(log, LogPosition("0" * 24, 100))) == b"one\n"
    assert "earlier requests are not observed" in caplog.text


def test_pieces_of_a_line_are_read_when_the_last_one_is_written_also_after_a_restart(tmp_path):
    log, first = followed(tmp_path, b"2026-11-22T17:39:55.315Z stdout F one\n")
    append(log, b"2026-11-22T17:39:55.315Z stdout P tw\n")
    assert read_all(first) == b""
    append(log, b"2026-11-22T17:39:55.315Z stdout F o\n")
    for tail in (follow(log, first.place), first):
        assert read_all(tail) == b"2026-11-22T17:39:55.315Z stdout P two\n"
        assert tail.place.offset == log.stat().st_size


def test_a_log_that_is_missing_can_be_followed_only_if_it_was_rotated(tmp_path):
    log = tmp_path / "log"
    with pytest.raises(BadInput, match=r"log: No such file or directory$"):
        check_log(log, UTC)
    append(log, fetched(AT))
    check_log(log, UTC)
    log.rename(tmp_path / "log.1")
    check_log(log, UTC)
    log.touch()
    check_log(log, UTC)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"hello\n", "log: not a request log, no line has 'Completed request:'"),
        (
            created("17:39:55,315", ("a", 1)) * 2,
            r"log: none of 2 lines with a mutation \(1,110 bytes\) can be read; the first",
        ),
    ],
    ids=["another log", "no date"],
)
def test_a_log_of_which_nothing_can_be_read_is_rejected_unless_a_rotated_file_can_be(tmp_path, content, error):
    log = tmp_path / "log"
    log.write_bytes(content)
    with pytest.raises(BadInput, match=error):
        check_log(log, UTC)
    append(tmp_path / "log.1", created(AT, ("a", 1)))
    check_log(log, UTC)


def test_a_pipe_is_rejected(tmp_path):
    os.mkfifo(tmp_path / "log")
    with pytest.raises(BadInput, match=r"log: only a regular file can be followed; observe import reads pipes$"):
        check_log(tmp_path / "log", UTC)
