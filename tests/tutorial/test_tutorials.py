"""The pages of `docs/tutorial` run as printed, at night; with each change, their commands are only read."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pytest

from jobs.sandbox.broker import free_port
from tests.support.broker import documented_acls, secure_broker
from tests.support.checkout import CHECKOUT
from tests.support.waiting import until
from tests.unit.docs.test_commands_on_pages import calls, problem

_BLOCK = re.compile(r"(?:<!-- test: ([^>]*) -->\s+)?```sh\n(.*?)```(?:\s+```text\n(.*?)```)?", re.DOTALL)
_WAIT, _WHOLE, _BACKGROUND = "wait for this output", "this is the whole output", "in the background until: "
_ID = re.compile(r"mutation-requests-\d+-\d+")
_KEPT = re.compile(r"^(?:export [^\n]*|[a-z-]+\(\) \{(?: [^\n]*|\n.*?\n)\})$", re.DOTALL | re.MULTILINE)
"""What holds for all later commands of a shell: variables and functions."""
_TIME = r"(?:\d{4}-\d\d-\d\dT)?\d\d:\d\d:\d\d\.\d{3}Z"
_VARYING = re.compile(
    rf"try again in [\d.]+ s, at {_TIME}|it could be tried again from {_TIME} on"  # the latter on a slow machine
    rf"|{_TIME}|gateway-[0-9a-f]{{32}}|{_ID.pattern}|\d+\.\d+"
)
"""What differs from run to run in an output that a page shows completely."""

_DEADLINE_SECONDS = 120
_START_SECONDS = 240


@dataclass(frozen=True)
class Step:
    """Commands of a page, and the lines that their output must have, in this order; `…` stands for any text."""

    commands: str
    expected: tuple[str, ...]
    waits: bool
    """Whether the commands are to be repeated until the output is there."""
    whole: bool
    """Whether the output has nothing else, apart from line breaks; its times, ids and decimal numbers may differ."""
    ready: str | None
    """The output at which a service that stays in the background is ready; None for other commands."""


def steps(name):
    """Return the steps of a page of docs/tutorial."""
    text = (CHECKOUT / "docs" / "tutorial" / f"{name}.md").read_text()
    unknown = {note for note, *_ in _BLOCK.findall(text) if note not in {"", _WAIT, _WHOLE}}
    assert all(note.startswith(_BACKGROUND) for note in unknown), unknown
    return [
        Step(
            commands,
            tuple(expected.splitlines()),
            note == _WAIT,
            note == _WHOLE,
            note.removeprefix(_BACKGROUND) if note.startswith(_BACKGROUND) else None,
        )
        for note, commands, expected in _BLOCK.findall(text)
    ]


class Session:
    """A shell in which the commands of a page run; ids of decisions in them become those that were printed."""

    def __init__(self, folder, replacements):
        """Open a session in a folder like a checkout; `replacements` are what the test has otherwise than the page."""
        self._replacements = replacements
        self._folder = folder
        self._kept = ""
        self._ids = {}
        self._services = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Stop the services, the last one first, as Ctrl-C does."""
        for service in reversed(self._services):
            with suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(service.pid, signal.SIGINT)
            try:
                service.wait(_DEADLINE_SECONDS)
            finally:
                service.kill()

    def run(self, step):
        """Run a step, and check its output, or leave it in the background when it is ready."""
        if step.ready is not None:
            self._serve(step)
            return
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while True:
            output = self._output(step.commands)
            missing = self._differs(step.expected, output) if step.whole else self._missing(step.expected, output)
            if missing is None:
                return
            if not step.waits or time.monotonic() > deadline:
                raise AssertionError(f"no {missing!r} after\n{step.commands}\nbut\n{output}")

    def _serve(self, step):
        log = self._folder / f"service-{len(self._services)}.log"
        with log.open("wb") as out:
            service = subprocess.Popen(
                ["bash", "-c", f"{self._kept}\n{self._replaced(step.commands)}"],
                cwd=self._folder,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._services.append(service)
        until(lambda: step.ready in log.read_text() or service.poll() is not None, _START_SECONDS)
        assert service.poll() is None, log.read_text()

    def _replaced(self, commands):
        for name, value in {**self._replacements, **self._ids}.items():
            commands = commands.replace(name, value)
        return commands

    def _output(self, commands):
        commands = self._replaced(commands)
        done = subprocess.run(
            ["bash", "-c", f"{self._kept}\n{commands}"],
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_DEADLINE_SECONDS,
            check=False,
        )
        self._kept += "".join(f"{each}\n" for each in _KEPT.findall(commands))
        return done.stdout

    @staticmethod
    def _differs(expected, output):
        """Return the expected words if the output has others; None if it has the same."""
        words = " ".join(" ".join(expected).split())
        pattern = rf"(?:{_VARYING.pattern}|\d+)".join(map(re.escape, _VARYING.split(words)))
        return None if re.fullmatch(pattern, " ".join(output.split())) else words

    def _missing(self, expected, output):
        """Return the first expected line that the output lacks; None if all are there."""
        lines = iter(output.splitlines())
        for each in expected:
            pattern = re.escape(each.strip()).replace("…", ".*").replace(r"\ ", r"\s*")
            named = _ID.search(each)
            for name, value in self._ids.items():
                pattern = pattern.replace(re.escape(name), re.escape(value))
            if named and named[0] not in self._ids:
                pattern = pattern.replace(re.escape(named[0]), f"(?P<id>{_ID.pattern})")
            for line in lines:
                if found := re.search(pattern, line):
                    if "id" in found.groupdict():
                        self._ids[named[0]] = found["id"]
                    break
            else:
                return each
        return None


_PROGRAM = [sys.executable, "-u", "-m", "jobs"]
_DECIDES = re.compile(r"^[1-9][\d,]* decisions?; ", re.MULTILINE)
"""The first totals with decisions: before, a client may wait longer than its time limit on a busy machine."""
_LEADS = re.compile(r"gateway: (\S+) forwards to (\S+)")


def test_the_pages_are_those_that_are_run_here():
    assert {page.stem for page in (CHECKOUT / "docs" / "tutorial").glob("*.md")} == {"adopt", "first-rejection"}


@pytest.mark.parametrize("page", ["adopt", "first-rejection"])
def test_the_commands_of_a_page_exist_and_bash_reads_them(page):
    commands = "".join(step.commands for step in steps(page))
    subprocess.run(["bash", "-n"], input=commands, text=True, check=True)
    problems = [problem(words) for words in calls(f"```sh\n{commands}```")]
    assert len(problems) > 5
    assert set(problems) == {None}


@contextmanager
def running(folder):
    """Run everything inside the block, until Ctrl-C; yields what it has printed when it decides."""
    log = folder / "run.log"
    with log.open("wb") as out, subprocess.Popen([*_PROGRAM, "run"], cwd=folder, stdout=out, stderr=out) as run:
        try:
            until(lambda: _DECIDES.search(log.read_text()) or run.poll() is not None, 240)
            yield log.read_text()
            run.send_signal(signal.SIGINT)
            assert run.wait(120) == 0
        finally:
            run.kill()
    left = subprocess.run(["pgrep", "-f", f"java.*{folder}"], capture_output=True, text=True, check=False)
    assert left.stdout == ""


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_each_command_of_first_rejection_prints_what_the_page_says_and_the_next_run_continues(tmp_path, monkeypatch):
    """The folder has what a checkout has after `make`."""
    start, *rest = steps("first-rejection")
    assert start.commands == "make run\n"
    monkeypatch.setenv("LOGNAME", "ann")  # the author of quota changes
    (tmp_path / ".jars").symlink_to(CHECKOUT / ".jars")
    with running(tmp_path) as printed:
        gateway, broker = _LEADS.search(printed).groups()
        activate = f'export KAFKA_BOOTSTRAP_SERVERS={broker}; mutation-quota() {{ {" ".join(_PROGRAM)} "$@"; }}'
        session = Session(tmp_path, {". .venv/bin/activate": activate, "127.0.0.1:19092": gateway})
        for step in rest:
            session.run(step)
    assert "adminclient-1" in (tmp_path / "report.html").read_text()
    with running(tmp_path):
        (history,) = [step for step in rest if step.commands.startswith("mutation-quota quotas history")]
        session.run(history)


@pytest.fixture
def cluster(base_settings, tmp_path):
    """A cluster with SCRAM users that knows nothing of this project, and the files of the page in the test's folder."""
    acls, of_topics = documented_acls(), ("CREATE", "DESCRIBE", "DELETE", "DESCRIBE_CONFIGS")
    with secure_broker(tmp_path / "cluster", base_settings.broker.jars) as secured:
        for user in ("quota", "team-a"):
            secured.add_user(user, f"{user}-secret")
        for principal in ("enforce", "audit", "gateway", "operator"):
            secured.allow("quota", acls[principal])
        secured.allow("quota", [("TOPIC", "mutation-", "PREFIXED", operation) for operation in of_topics])
        secured.allow("team-a", [("TOPIC", "team-a-", "PREFIXED", operation) for operation in of_topics])
        (tmp_path / "quota.password").write_text("quota-secret")
        (tmp_path / "ca.pem").symlink_to(secured.authority.path)
        yield secured.address


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_each_command_of_adopt_prints_what_the_page_says(cluster, tmp_path):
    (tmp_path / ".jars").symlink_to(CHECKOUT / ".jars")
    gateway, metrics = free_port(), free_port()
    program = f'mutation-quota() {{ {sys.executable} -u -m jobs "$@"; }}'
    replaced = {
        "cat > mutation-quota.toml": f"{program}\ncat > mutation-quota.toml",
        "19092=kafka-1:9093": f"{gateway}={cluster}",
        "test-kafka-1:9093": cluster,
        "kafka-1:9093": cluster,
        "127.0.0.1:19092": f"127.0.0.1:{gateway}",
        "9599": str(metrics),
        "--partitions 10000": "--partitions 50",
        # The first decision of a young JVM may take longer than the default on a busy machine.
        "metrics.port=0 gateway": "metrics.port=0 --set gateway.decision_timeout_seconds=60 gateway",
    }
    with Session(tmp_path, replaced) as session:
        for step in steps("adopt"):
            session.run(step)
