"""The job as an operator starts it: a Python driver, its JVM, and the JVM's Python workers, which can all be killed."""

import os
import signal
import subprocess
from contextlib import suppress

from tests.support.deployment import as_options
from tests.support.programs import (
    SPARK_ENVIRONMENT,
    child_processes,
    command_line,
    command_words,
    has_ended,
    paused,
    thread_states,
)
from tests.support.waiting import until

_POLL_SECONDS = 0.001
_CONSTANTS = {"jobs.audit.query._MAX_RECORDS": 2000}
"""Keeps the audit's batches short, even if it has fallen behind."""


class Job:
    """`mutation-quota enforce`, with or without the audit in the same process, so that a kill hits both."""

    def __init__(self, settings, log, *options, with_audit, group=None):
        """Start the job. `group` is the group of its processes, and so of the files that they write."""
        own = [f"storage.root={settings.storage.root}", "spark.master=local[2]", f"enforce.with_audit={with_audit}"]
        own.append(f"enforce.state_partitions={settings.enforce.state_partitions}")
        command = command_line("enforce", *as_options(settings, *own), *options, constants=_CONSTANTS)
        self.with_audit = with_audit
        self._is_frozen = False
        self._known = []
        self._log = log
        self._began = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._driver = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                env=os.environ | SPARK_ENVIRONMENT,
                start_new_session=True,
                group=group,
            )

    @property
    def exit_code(self):
        """The exit code; None while the job runs."""
        return self._driver.poll()

    @property
    def output(self):
        """The output since the start."""
        with self._log.open("rb") as log:
            log.seek(self._began)
            return log.read().decode(errors="replace")

    def await_standing_by(self, seconds):
        """Wait until it is ready to take over from the job that holds the lease."""

        def is_ready():
            assert self.exit_code is None, f"the standby ended by itself:\n{self.output[-3000:]}"
            return "ready to take over" in self.output

        until(is_ready, seconds)

    def paused_driver(self):
        """Return a context in which its driver is stopped, so that it does not take over."""
        return paused(self._driver.pid)

    @property
    def jvm(self):
        """Process id of the JVM; None before it starts. (The launcher, a shell, becomes the JVM.)"""
        return next(iter(child_processes(self._driver.pid)), None)

    @property
    def daemon(self):
        """Id of the process that forks the Python workers; None before it starts."""
        jvm = self.jvm
        children = child_processes(jvm) if jvm else ()  # a shell of Spark's launcher may remain as a zombie
        return next((pid for pid in children if "pyspark.daemon" in command_words(pid)), None)

    @property
    def workers(self):
        """Process ids of the Python workers."""
        daemon = self.daemon
        return child_processes(daemon) if daemon else []

    @property
    def _writers(self):
        """The processes that write; the workers first, whose steps are the shortest."""
        return [pid for pid in (*self.workers, self.daemon, self.jvm) if pid]

    def freeze(self):
        """Stop the JVM and its workers, and with them all writes to files, tables and topics."""
        for pid in self._known:  # at once: a list of all processes takes longer than some steps
            _send(pid, signal.SIGSTOP)
        writers = self._writers
        for pid in writers:
            _send(pid, signal.SIGSTOP)
        until(lambda: all(thread_states(pid) <= {"T", "Z"} for pid in writers), 10, _POLL_SECONDS)
        self._is_frozen = True

    def thaw(self):
        """Continue all of them."""
        self._known = self._writers
        for pid in self._known:
            _send(pid, signal.SIGCONT)
        self._is_frozen = False

    def kill(self):
        """Kill driver and JVM by SIGKILL; the workers end by themselves without a JVM, unless they are frozen."""
        self._driver.send_signal(signal.SIGSTOP)  # so that it starts no further process
        jvm, orphans = self.jvm, [*self.workers, self.daemon]
        for pid in (*(orphans if self._is_frozen else ()), jvm, self._driver.pid):
            if pid:
                _send(pid, signal.SIGKILL)
        self._driver.wait()
        _await_end([jvm, *orphans])

    def kill_driver(self):
        """Kill the driver alone, without waiting for its JVM to notice."""
        self._driver.kill()
        self._driver.wait()

    def kill_jvm(self):
        """Kill the JVM alone."""
        if jvm := self.jvm:
            _send(jvm, signal.SIGKILL)

    def kill_workers(self):
        """Kill the Python workers, and return their number."""
        workers = self.workers
        for pid in workers:
            _send(pid, signal.SIGKILL)
        return len(workers)

    def kill_daemon(self):
        """Kill the process that forks the workers, and return whether there was one."""
        daemon = self.daemon
        if daemon:
            _send(daemon, signal.SIGKILL)
        return daemon is not None

    def finish(self, seconds):
        """Wait for the end, and return the exit code."""
        return self._driver.wait(seconds)


def _send(pid, which):
    with suppress(ProcessLookupError):
        os.kill(pid, which)


def _await_end(pids):
    """Wait for processes that are not our children; a zombie that waits for its parent has ended."""
    until(lambda: all(map(has_ended, filter(None, pids))), 120, poll_seconds=0.01)
