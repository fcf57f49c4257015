"""The job as an operator starts it: a Python driver, its JVM, and the Python workers of that. All can be killed."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.support.deployments import as_options
from tests.support.jvm import SPARKS
from tests.support.waiting import until

_LOOK_SECONDS = 0.001


class Job:
    """`mutation-quota enforce`, perhaps with the audit in the same process, so that a kill hits both."""

    def __init__(self, settings, log, *options, with_audit):
        """Start it.

        Args:
            settings: the deployment.
            log: a file that what it says is added to.
            options: more of the command's options.
            with_audit: whether it does the audit, too.
        """
        own = [f"storage.root={settings.storage.root}", "spark.master=local[2]", f"enforce.with_audit={with_audit}"]
        more = [part for each in own for part in ("--set", each)]
        command = [sys.executable, "-c", "from jobs.__main__ import main; main()", "enforce"]
        command += [*as_options(settings), *more, *options]
        self.with_audit = with_audit
        self._log = log
        self._began = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._driver = subprocess.Popen(
                command, stdout=output, stderr=output, env=os.environ | SPARKS, start_new_session=True
            )

    @property
    def exit_code(self):
        """How it ended; None while it runs."""
        return self._driver.poll()

    @property
    def said(self):
        """What it has said since it was started."""
        with self._log.open("rb") as log:
            log.seek(self._began)
            return log.read().decode(errors="replace")

    @property
    def jvm(self):
        """The process of the JVM; None before there is one. (The launcher, a shell, becomes it.)"""
        return next(iter(children(self._driver.pid)), None)

    @property
    def daemon(self):
        """The process that the Python workers are forked from; None before there is one."""
        jvm = self.jvm
        return next(iter(children(jvm)), None) if jvm else None

    @property
    def workers(self):
        """The Python workers there are."""
        daemon = self.daemon
        return children(daemon) if daemon else []

    def freeze(self):
        """Stop the JVM where it stands, and with it everything that is written to files and topics."""
        jvm = self.jvm
        if jvm:
            _send(jvm, signal.SIGSTOP)
            until(lambda: _state(jvm) in {"T", "Z", None}, 10, look_seconds=_LOOK_SECONDS)

    def thaw(self):
        """Let the JVM go on."""
        if jvm := self.jvm:
            _send(jvm, signal.SIGCONT)

    def kill(self):
        """Kill driver and JVM by SIGKILL. The workers, whose JVM is gone, end by themselves."""
        self._driver.send_signal(signal.SIGSTOP)  # it starts nothing any more
        jvm, orphans = self.jvm, [*self.workers, self.daemon]
        for each in (jvm, self._driver.pid):
            if each:
                _send(each, signal.SIGKILL)
        self._driver.wait()
        _await_end([jvm, *orphans])

    def kill_driver(self):
        """Kill the driver alone, and do not wait for its JVM to notice."""
        self._driver.kill()
        self._driver.wait()

    def kill_jvm(self):
        """Kill the JVM alone."""
        if jvm := self.jvm:
            _send(jvm, signal.SIGKILL)

    def kill_workers(self):
        """Kill the Python workers; how many there were."""
        workers = self.workers
        for each in workers:
            _send(each, signal.SIGKILL)
        return len(workers)

    def kill_daemon(self):
        """Kill the process that the workers are forked from."""
        if daemon := self.daemon:
            _send(daemon, signal.SIGKILL)

    def finish(self, seconds):
        """Wait for its end; the exit code."""
        return self._driver.wait(seconds)


def children(parent):
    """The processes that a process has started."""
    found = []
    for each in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if int(_stat(int(each.name))[1]) == parent:
                found.append(int(each.name))
    return found


def _stat(pid):
    """State, parent and so on, behind the name, which may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _state(pid):
    try:
        return _stat(pid)[0]
    except OSError:
        return None


def _send(pid, which):
    with suppress(ProcessLookupError):
        os.kill(pid, which)


def _await_end(pids):
    """Processes that are nobody's child here; a zombie that waits for its parent has ended."""
    until(lambda: all(_state(each) in {"Z", "X", None} for each in pids if each), 120, look_seconds=0.01)
