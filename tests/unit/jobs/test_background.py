"""Work on a separate thread, for as long as a block runs."""

import threading

from jobs.background import background


def work(events):
    def _work(stop):
        events.append("started")
        stop.wait(10)
        events.append(f"stopped {stop.is_set()}")

    return _work


def test_the_work_ends_with_the_block():
    events = []
    with background(work(events), "some-work"):
        assert "some-work" in [thread.name for thread in threading.enumerate()]
        events.append("block")
    assert sorted(events) == ["block", "started", "stopped True"]
    assert events[-1] == "stopped True"


def test_the_wait_for_the_work_may_be_bounded():
    release = threading.Event()
    with background(lambda _: release.wait(10), "stuck", join_seconds=0.01):
        pass
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "stuck"]
    release.set()
    thread.join()
