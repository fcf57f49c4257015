"""Work on a separate thread, for as long as a block runs."""

import threading

from jobs.background import background


def test_the_wait_for_the_work_may_be_bounded():
    release = threading.Event()
    with background(lambda _: release.wait(10), "stuck", join_seconds=0.01):
        pass
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "stuck"]
    assert thread.is_alive()
    release.set()
    thread.join()
