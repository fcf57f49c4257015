"""Upkeep during a query: when it is due, and that it runs in a separate process and never ends the query."""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from msgspec import structs

import jobs.audit.upkeep_schedule
from jobs.audit.upkeep import REGULAR
from jobs.audit.upkeep_schedule import Upkeep, UpkeepTask, run_upkeep, stopping_upkeep
from jobs.metrics.endpoint import STALLED_SECONDS
from quota.errors import MutationQuotaError
from quota.records import codec
from tests.support.waiting import until
from tests.unit.jobs.audit.conftest import NOON

MEMORY = 2 * 2**30


@pytest.fixture
def clock(monkeypatch):
    """The seconds of the monotonic clock, as a list of one."""
    seconds = [0.0]
    monkeypatch.setattr(jobs.audit.upkeep_schedule.time, "monotonic", lambda: seconds[0])
    return seconds


def task(kept):
    return UpkeepTask(kept.settings.storage.tables, {}, kept.plan(), NOON, MEMORY)


def test_it_runs_in_a_separate_process(crowded):
    result = run_upkeep(task(crowded))
    assert (result.files_compacted, result.files_written) == (REGULAR.newest + 1, 1)
    assert str(result) == "decisions: 21 files compacted into 1"
    assert crowded.files == {"2026-11-21": 1}


@pytest.mark.parametrize(
    ("command", "seconds", "reason"),
    [
        (  # as a library ends it that gets no memory
            "import os; os.write(2, b'memory allocation of 9 bytes failed\\nmore'); os.abort()",
            60,
            "decisions failed: SIGABRT, memory allocation of 9 bytes failed",
        ),
        ("import signal; signal.pause()", 0.2, "took longer than 0 s"),
    ],
)
def test_a_failure_of_that_process_names_the_reason(crowded, monkeypatch, command, seconds, reason):
    monkeypatch.setattr(jobs.audit.upkeep_schedule, "_COMMAND", command)
    monkeypatch.setattr(jobs.audit.upkeep_schedule, "PART_SECONDS", seconds)
    with pytest.raises(MutationQuotaError, match=f"{reason}; run mutation-quota maintain decisions, "):
        run_upkeep(task(crowded))


def test_an_upkeep_that_a_stop_interrupts_is_no_failure_and_the_last_one(crowded, monkeypatch, caplog):
    monkeypatch.setattr(jobs.audit.upkeep_schedule, "_COMMAND", "import signal; signal.pause()")
    stop, failures = threading.Event(), Counter()
    stop.set()
    upkeep = Upkeep(crowded.settings, 300.0, once=True, failures=failures)
    with stopping_upkeep(stop), caplog.at_level(logging.INFO):
        upkeep.after_batch()
    assert [record.getMessage() for record in caplog.records] == [
        "the upkeep of decisions was interrupted, because the service stops; it continues after the next start"
    ]
    assert failures.total() == 0


def test_its_process_does_not_begin_if_the_one_that_waits_has_ended_before(crowded):
    another_parent = str(os.getppid())
    command = [sys.executable, "-c", jobs.audit.upkeep_schedule._COMMAND, another_parent]  # noqa: SLF001
    done = subprocess.run(command, input=codec.encode(task(crowded)), capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert crowded.files == {"2026-11-21": REGULAR.newest + 1}


def test_its_process_does_not_outlive_its_parent(crowded):
    """The parent ends as if killed: its child hangs in the middle of the work."""
    hang = (
        "import jobs.audit.upkeep_schedule as c, signal; "
        "c.maintain = lambda *_: (print(1, flush=True), signal.pause());"
    )
    killed = (
        f"import os, subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {hang + 'c.main()'!r}, "
        "str(os.getpid())], "
        "stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL); "
        "p.stdin.write(sys.stdin.buffer.read()); p.stdin.close(); "
        "assert p.stdout.read(1) == b'1'; print(p.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", killed], input=codec.encode(task(crowded)), capture_output=True, check=False
    )
    child = int(done.stdout)
    until(lambda: not Path(f"/proc/{child}").exists() or "Z (zombie)" in Path(f"/proc/{child}/status").read_text())


@pytest.mark.parametrize(("seconds", "after", "is_due"), [(300.0, 299, False), (300.0, 300, True), (0.0, 1e9, False)])
def test_it_is_due_after_its_time_and_never_if_that_is_zero(crowded, clock, seconds, after, is_due):
    upkeep = Upkeep(crowded.settings, seconds, once=False)
    clock[0] = after
    upkeep.after_batch()
    assert crowded.files == {"2026-11-21": 1 if is_due else REGULAR.newest + 1}


def test_a_table_that_fails_is_skipped_for_an_hour_and_the_others_are_not(crowded, clock, caplog):
    (crowded.path.parent / "dead_letters" / "_delta_log" / f"{0:020}.json").write_text("{")
    failures = Counter()
    upkeep = Upkeep(crowded.settings, 300.0, once=True, failures=failures)
    with caplog.at_level(logging.WARNING):
        upkeep.after_batch()
    assert failures == {"decisions": 0, "dead_letters": 1, "quota_changes": 0}
    (record,) = caplog.records
    assert "dead_letters" in record.getMessage()
    assert record.getMessage().endswith("; retrying in an hour")
    assert crowded.files == {"2026-11-21": 1}
    clock[0] = 3599
    upkeep.after_batch()
    assert len(caplog.records) == 1
    clock[0] = 3600
    upkeep.after_batch()
    assert len(caplog.records) == 2
    assert failures["dead_letters"] == 2


def test_all_tables_together_delay_a_query_for_less_than_the_limit_of_its_health(kept, clock, monkeypatch):
    """Each part takes its maximum time. Parts that do not fit follow after the next batches, so none is skipped."""
    plan = structs.replace(kept.plan(), daily=True, compact={NOON.date(): 9})
    monkeypatch.setattr(
        jobs.audit.upkeep_schedule, "plan_upkeep", lambda _, name, *__: structs.replace(plan, table=name)
    )
    begun = set()

    def take_long(task):
        begun.add((task.plan.table, task.plan.daily))
        clock[0] += 120
        raise MutationQuotaError("it took too long")

    monkeypatch.setattr(jobs.audit.upkeep_schedule, "run_upkeep", take_long)
    upkeep = Upkeep(kept.settings, 300.0, once=True)
    delays = []
    for _ in range(3):
        before = clock[0]
        upkeep.after_batch()
        delays.append(clock[0] - before)
    assert delays == [240, 240, 240]
    assert max(delays) < STALLED_SECONDS
    tables = ("decisions", "dead_letters", "quota_changes")
    assert begun == {(table, daily) for table in tables for daily in (True, False)}


def test_a_store_that_fails_while_the_upkeep_is_planned_does_not_fail_the_query(kept, caplog, monkeypatch):
    monkeypatch.setattr(DeltaTable, "transaction_version", Mock(side_effect=DeltaError("Kernel error")))
    with caplog.at_level(logging.WARNING):
        Upkeep(kept.settings, 300.0, once=True).after_batch()
    assert "cannot be read or written: Kernel error" in caplog.records[-1].getMessage()
