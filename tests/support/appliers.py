"""Appliers as processes of their own, which can be killed."""

import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

from tests.support.deployments import as_options


@contextmanager
def applying(settings, kills=0, between=(0.5, 2.5), seed=599):
    """An applier at work, killed so many times at random moments; at the end it is let finish."""
    rng = random.Random(seed)
    process = _start(settings)

    def kill():
        nonlocal process
        for _ in range(kills):
            time.sleep(rng.uniform(*between))
            process.kill()
            process.communicate()
            process = _start(settings)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        killer.join()
        process.send_signal(signal.SIGTERM)
        try:
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 0, said


def _start(settings):
    command = [sys.executable, "-c", "from jobs.__main__ import main; main()", "apply", *as_options(settings)]
    return subprocess.Popen(command, stderr=subprocess.PIPE)
