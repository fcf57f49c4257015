"""Only one of all processes runs a query on a storage root."""

import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from unittest.mock import Mock

import msgspec
import pytest

from jobs.spark.jvm import SignOfLife
from jobs.storage import holder
from jobs.storage.holder import Holder, Process
from jobs.storage.lease import Lease, LeaseError, LeaseLost, LeaseWatch, _renew, hold_lease, read_holder
from tests.support.memory_files import MemoryFiles
from tests.support.programs import process_state
from tests.support.waiting import until

SECONDS = 1.2
"""By the clock of the tests; threads renew every 0.2 s of real time."""


class StillClock:
    """Time that passes only in sleeps, or when a test adds to it."""

    def __init__(self):
        self.time = 0.0
        self.meanwhile = lambda: None

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds
        self.meanwhile()


@pytest.fixture
def clock():
    return StillClock()


@pytest.fixture
def store():
    return MemoryFiles()


def here(sign_of_life=None):
    return Holder.here(os.getpid(), sign_of_life)


def elsewhere(host="other-host"):
    return msgspec.structs.replace(here(), host=host, machine="another", id=host)


def lease_of(store, me, seconds=SECONDS, clock=None):
    return Lease(store, LeaseWatch("enforce", clock or StillClock()), seconds, me)


@contextmanager
def held(lease, finish=lambda: True, **options):
    """Hold a lease, and return whether its loss was noticed."""
    stopped = threading.Event()
    with hold_lease(lease, Mock(), stopped.set, finish, **options):
        yield stopped


def ended_process():
    """A process of this machine that has ended."""
    process = subprocess.Popen(["sleep", "60"])
    ended = Process.of(process.pid)
    process.kill()
    process.wait()
    return ended


def test_neither_a_zombie_nor_a_later_process_with_the_same_id_runs_a_job():
    with subprocess.Popen(["sleep", "60"]) as child:
        process = Process.of(child.pid)
        child.kill()
        until(lambda: process_state(child.pid) == "Z")
        assert process.runs is False
    mine = Process.of(os.getpid())
    assert (mine.runs, Process(mine.pid, mine.start_time - 1).runs) == (True, False)


def test_a_second_job_on_this_machine_is_rejected_with_the_name_of_the_holder(store):
    with held(lease_of(store, here())), pytest.raises(LeaseError) as raised, held(lease_of(store, here())):
        pass
    assert str(raised.value).startswith(
        f"another enforce is running on s3a://bucket/root: process {os.getpid()} on {here().host}, since 2"
    )


def test_a_second_job_is_rejected_while_a_job_of_another_machine_renews_its_lease(store, clock):
    first = lease_of(store, elsewhere())
    clock.meanwhile = first.renew
    with (
        held(first) as stopped,
        pytest.raises(LeaseError, match=r"another enforce is running on .* on other-host"),
        held(lease_of(store, here(), clock=clock)),
    ):
        pass
    assert not stopped.is_set()


def test_a_released_lease_is_available_at_once(store, clock):
    with held(lease_of(store, elsewhere(), seconds=3600)):
        pass
    with held(lease_of(store, here(), seconds=3600, clock=clock)):
        assert clock.time == 0


@pytest.mark.parametrize("hidden", [False, True], ids=["", "where the system hides processes"])
def test_a_job_that_was_killed_on_this_machine_is_replaced_at_once(store, clock, monkeypatch, hidden):
    dead = ended_process()
    lease_of(store, msgspec.structs.replace(here(), program=dead, jvm=dead), seconds=3600).claim()
    me = here()
    if hidden:
        monkeypatch.setattr(holder, "_start_time", lambda _: None)
    with held(lease_of(store, me, seconds=3600, clock=clock)):
        assert clock.time == 0


def test_a_live_job_whose_process_the_system_hides_is_not_replaced(store, monkeypatch, clock):
    first, second = lease_of(store, here(), seconds=3600), here()
    first.claim()
    monkeypatch.setattr(holder, "_start_time", lambda _: None)  # as with /proc mounted with hidepid=2
    clock.meanwhile = first.renew
    with pytest.raises(LeaseError, match="another enforce is running on"):
        lease_of(store, second, seconds=3600, clock=clock).claim()


@pytest.mark.parametrize("hangs", [False, True], ids=["", "and hangs"])
def test_a_jvm_that_outlives_its_program_is_killed_before_the_lease_is_acquired(store, clock, hangs):
    jvm = subprocess.Popen(["sleep", "60"])
    if hangs:
        jvm.send_signal(signal.SIGSTOP)
    lease_of(store, msgspec.structs.replace(here(), program=ended_process(), jvm=Process.of(jvm.pid)), 3600).claim()

    second = lease_of(store, here(), clock=clock)
    assert not second.try_claim()
    assert jvm.wait(10) == -signal.SIGKILL
    assert second.try_claim()
    assert clock.time == 0


@pytest.mark.parametrize(("of_holder", "of_second"), [(600, 45), (45, 600)])
def test_a_holder_on_another_machine_is_waited_for_by_its_own_setting(store, clock, of_holder, of_second):
    lease_of(store, elsewhere(), seconds=of_holder).claim()
    lease_of(store, here(), seconds=of_second, clock=clock).claim()
    assert clock.time == pytest.approx(of_holder, abs=2)


def test_the_wait_for_a_dead_holder_begins_with_the_first_look_before_there_is_a_jvm(store, clock):
    lease_of(store, elsewhere(), seconds=15).claim()
    watch = LeaseWatch("enforce", clock)
    watch.look(store)
    clock.time = 12.0  # Spark has started
    Lease(store, watch, 15, here()).claim()
    assert clock.time == pytest.approx(15, abs=1)


def test_a_renewal_after_the_first_look_starts_the_wait_again(store, clock):
    first = lease_of(store, elsewhere(), seconds=15)
    first.claim()
    watch = LeaseWatch("enforce", clock)
    watch.look(store)
    clock.time = 12.0
    first.renew()
    Lease(store, watch, 15, here()).claim()
    assert clock.time == pytest.approx(27, abs=1)


def test_a_restarted_container_of_a_pod_knows_whether_its_former_process_has_ended(store, clock):
    """It has processes of its own, as here the holder seems to have, and the network of the pod."""
    former = SignOfLife()
    lease_of(store, msgspec.structs.replace(here(former.name), machine="another"), seconds=3600).claim()
    restarted = lease_of(store, here(), seconds=3600, clock=clock)
    assert not restarted.try_claim()
    former.close()
    assert restarted.try_claim()
    assert clock.time == 0


def test_the_name_of_a_former_process_means_nothing_in_another_pod(store):
    former = SignOfLife()
    former.close()
    there = msgspec.structs.replace(here(former.name), machine="another", network="of another pod")
    lease_of(store, there, seconds=3600).claim()
    assert lease_of(store, here(), seconds=3600).try_claim() is False


def test_a_process_that_is_stopped_has_set_its_jvm_to_halt_before_another_may_start(store, clock):
    timer = Mock()
    with hold_lease(lease_of(store, here(), seconds=SECONDS, clock=clock), timer, pytest.fail, lambda: True):
        until(lambda: timer.set.call_count > 1)  # and with each renewal
        timer.cancel.assert_not_called()
    assert timer.set.call_args.args == (pytest.approx(0.8),)
    timer.cancel.assert_called_once()


def test_a_renewal_that_ends_after_its_lease_sets_no_jvm_to_halt(store, monkeypatch):
    timer, lease, stop = Mock(), lease_of(store, here()), threading.Event()
    monkeypatch.setattr(lease, "renew", stop.set)
    lease.renew_seconds = 0
    _renew(lease, timer, stop)
    assert timer.set.call_count == 1


def test_an_operator_who_knows_that_the_holder_is_gone_need_not_wait(store, clock):
    lease_of(store, elsewhere()).claim()

    with held(lease_of(store, here(), seconds=3600, clock=clock), take_over=True):
        assert clock.time == 0


def hold_until_lost(lease, lose):
    """Hold a lease until `lose` makes it lost, which kills the JVM."""
    with held(lease) as stopped:
        lose()
        until(stopped.is_set)
        raise OSError("the JVM was killed")


def test_a_job_that_has_lost_the_lease_stops_and_names_the_new_holder(store):
    second = lease_of(store, elsewhere("second"))
    with pytest.raises(LeaseError, match=r"enforce has lost its lease on s3a://bucket/root to process \d+ on second"):
        hold_until_lost(lease_of(store, elsewhere("first")), lambda: second.claim(take_over=True))
    (text,) = store.texts.values()  # and it does not release that of the other one
    assert ('"host":"second"' in text, '"ended":false' in text) == (True, True)


def test_a_job_that_has_lost_the_lease_fails_even_if_its_work_succeeds(store):
    def work():
        with held(lease_of(store, elsewhere("first"))) as stopped:
            lease_of(store, elsewhere("second")).claim(take_over=True)
            until(stopped.is_set)

    with pytest.raises(LeaseError, match="enforce has lost its lease"):
        work()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_lease_is_released_only_after_the_protected_work_has_stopped(store, error):
    files_at_finish = []

    def finish():
        files_at_finish.extend(store.texts.values())
        return True

    with pytest.raises(error), held(lease_of(store, here()), finish):
        raise error
    assert ['"ended":false' in text for text in files_at_finish] == [True]
    assert ['"ended":true' in text for text in store.texts.values()] == [True]


def test_a_lease_is_not_released_while_work_continues_or_may_continue(store):
    """An impatient operator interrupts the stop."""

    def interrupted():
        raise KeyboardInterrupt

    with held(lease_of(store, here()), lambda: False):
        pass
    assert ['"ended":false' in text for text in store.texts.values()] == [True]
    store.texts.clear()
    with pytest.raises(KeyboardInterrupt), held(lease_of(store, here()), interrupted):
        pass
    assert ['"ended":false' in text for text in store.texts.values()] == [True]


def test_a_job_that_cannot_renew_stops_before_another_may_start(store, clock):
    lease = lease_of(store, elsewhere(), clock=clock)

    def lose():
        store.reachable.clear()
        lease.renew()
        clock.time += 0.75 * SECONDS

    with pytest.raises(LeaseError, match=r"could not renew its lease on .* \(connection refused\) and has stopped"):
        hold_until_lost(lease, lose)


def test_a_process_that_was_stopped_reports_the_lease_and_not_the_jvm_that_has_halted_meanwhile(store, clock):
    def resume():
        clock.time += 0.75 * SECONDS
        raise OSError("the JVM has halted")

    with pytest.raises(LeaseLost, match="could not renew its lease"), held(lease_of(store, here(), clock=clock)):
        resume()


def test_a_store_that_recovers_in_time_has_no_effect(store, clock):
    lease = lease_of(store, elsewhere(), seconds=60, clock=clock)
    lease.claim()
    for _ in range(3):
        store.reachable.clear()
        clock.time += 35
        lease.renew()
        lease.check()
        store.reachable.set()
        lease.renew()
    assert (lease.lost, list(store.texts)) == (None, ["leases/enforce/1"])


def test_a_folder_that_an_operator_removes_is_a_lease_that_is_lost(store):
    with pytest.raises(LeaseError, match="to an operator, and has stopped"):
        hold_until_lost(lease_of(store, here()), store.texts.clear)


def test_one_of_many_simultaneous_starts_continues(store):
    start = threading.Barrier(8)

    def compete(number):
        lease = lease_of(store, elsewhere(f"host-{number}"), seconds=3600)
        start.wait()
        with suppress(LeaseError):
            lease.claim(take_over=True)
            return lease

    with ThreadPoolExecutor(8) as pool:
        won = list(filter(None, pool.map(compete, range(8))))
    for lease in won:
        lease.renew()
    assert len([lease for lease in won if lease.lost is None]) == 1


def test_a_store_without_conditional_creation_is_reported(caplog):
    lease_of(MemoryFiles(conditional=False), here()).claim()

    assert "does not support conditional writes (If-None-Match), so two jobs" in caplog.text


def test_a_lease_is_acquired_if_the_answer_to_its_creation_is_lost(store, monkeypatch):
    def create_twice(path, text):  # as a client that gets no answer to its first attempt
        MemoryFiles.create(store, path, text)
        return MemoryFiles.create(store, path, str(text.encode(), "utf-8"))

    monkeypatch.setattr(store, "create", create_twice)
    with held(lease_of(store, here())) as stopped:
        assert list(store.texts) == ["leases/enforce/1"]
        assert not stopped.is_set()
    assert '"ended":true' in store.texts["leases/enforce/1"]


def test_a_partial_file_is_awaited_and_replaced(store):
    store.texts["leases/enforce/7"] = '{"run": "'

    with held(lease_of(store, here())):
        assert list(store.texts) == ["leases/enforce/8"]


def runs(store):
    """Return whether the last holder of the lease has not released it, and whether it runs as far as is known."""
    last = read_holder(store, "enforce")
    return not last.ended, last.runs


def test_a_lease_tells_whether_its_query_runs_on_this_machine(store):
    assert read_holder(store, "enforce") is None  # nobody has run it
    lease_of(store, elsewhere()).claim()
    assert runs(store) == (True, None)
    store.texts.clear()
    lease = lease_of(store, here())
    lease.claim()
    assert runs(store) == (True, True)
    lease.release()
    assert runs(store) == (False, True)
    store.texts.clear()
    lease_of(store, msgspec.structs.replace(here(), program=ended_process(), jvm=ended_process())).claim()
    assert runs(store) == (True, False)
