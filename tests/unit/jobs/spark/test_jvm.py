"""The launcher of a session's JVM, with a script in the place of Java that sleeps, and has a worker that does."""

import os
import pwd
import re
import shlex
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest
from pyspark import SparkConf

from jobs.signals import killing_on_signal
from jobs.spark import jvm as module
from jobs.spark.jvm import ClassArchive, Jvm, TemporaryFolder, is_alive
from quota.errors import MutationQuotaError
from tests.support.programs import has_ended
from tests.support.waiting import until

SLEEPING = """
set -m  # a worker has its own process group
sleep 60 &
echo "$$ $! $*" > "$JAVA_HOME/started.part"
mv "$JAVA_HOME/started.part" "$JAVA_HOME/started"
exec sleep 60
"""


@pytest.fixture
def java_home(tmp_path, monkeypatch):
    """Return a function that sets what runs in the place of Java; it returns the folder."""

    def _set(script):
        program = tmp_path / "bin" / "java"
        program.parent.mkdir()
        program.write_text(f"#!/usr/bin/env bash\n{script}")
        program.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        return tmp_path

    return _set


CONF = SparkConf(loadDefaults=False).set("spark.master", "local[1]")


@pytest.fixture
def jvm():
    """Return a JVM, which ends with the test as with a session."""
    prepared = Jvm()
    yield prepared
    prepared.end()


def started(home):
    """Return the process ids of the JVM and its worker, and its temporary folder."""
    jvm, worker, options = (home / "started").read_text().split(" ", 2)
    return int(jvm), int(worker), Path(re.search(r"-Djava\.io\.tmpdir=(\S+)", options)[1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_jvm_starts_kills_it_with_its_worker_and_removes_its_files(java_home, jvm, number):
    home = java_home(SLEEPING)
    before = [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)]

    def interrupt():
        until((home / "started").exists, poll_seconds=0.01)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt), killing_on_signal(jvm):
        jvm.start(CONF, home / "spark.log")
    jvm.end()
    thread.join()
    process, worker, folder = started(home)
    until(lambda: has_ended(process) and has_ended(worker))
    assert not folder.exists()
    assert [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)] == before


def test_its_sign_of_life_lasts_as_long_as_the_jvm_or_its_program(java_home, jvm):
    home, sign = java_home(SLEEPING), jvm.sign_of_life

    def start():
        with pytest.raises(MutationQuotaError):  # it is killed
            jvm.start(CONF, home / "spark.log")

    thread = threading.Thread(target=start)
    thread.start()
    until((home / "started").exists, poll_seconds=0.01)
    sign.close()  # as the end of the program does
    assert is_alive(sign.name)
    for process in started(home)[:2]:
        os.kill(process, signal.SIGKILL)
    thread.join()
    until(lambda: not is_alive(sign.name))


def test_the_files_of_a_program_that_was_killed_with_its_jvm_are_removed_by_a_later_one_and_no_others(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "_TEMPORARY", tmp_path)
    killed, running, fifo = TemporaryFolder(), TemporaryFolder(), tmp_path / "mutation-quota-spark-fifo"
    os.mkfifo(fifo)
    (killed.path / "native.so").write_bytes(b"\0" * 100)
    jvm = subprocess.Popen(["sleep", "60"], pass_fds=[killed.fileno()])
    os.close(killed.fileno())  # as the end of the program does
    TemporaryFolder().remove()
    assert killed.path.exists()
    jvm.kill()
    jvm.wait()
    TemporaryFolder().remove()
    assert set(tmp_path.iterdir()) == {running.path, fifo}
    running.remove()


def test_folders_of_other_users_are_left(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_TEMPORARY", tmp_path)
    theirs = tmp_path / "mutation-quota-spark-theirs"
    theirs.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: theirs.stat().st_uid + 1)
    TemporaryFolder().remove()
    assert theirs.exists()


def test_a_jvm_that_is_ended_by_two_threads_is_ended_once(java_home, jvm, monkeypatch):
    """As by the watches of two leases, after the machine was suspended."""
    home, removed = java_home(SLEEPING), []

    def end_again(folder):
        removed.append(folder)
        jvm.end()

    monkeypatch.setattr(TemporaryFolder, "remove", end_again)
    thread = threading.Thread(target=lambda: (until((home / "started").exists), jvm.end()))
    thread.start()
    with pytest.raises(MutationQuotaError):
        jvm.start(CONF, home / "spark.log")
    thread.join()
    assert len(removed) == 1


def test_a_signal_before_the_jvm_starts_no_jvm(java_home, jvm):
    home = java_home(SLEEPING)

    def interrupt_and_start():
        with killing_on_signal(jvm):
            os.kill(os.getpid(), signal.SIGINT)
            jvm.start(CONF, home / "spark.log")

    with pytest.raises(KeyboardInterrupt):
        interrupt_and_start()
    assert not (home / "started").exists()


def test_a_signal_while_the_process_is_created_kills_it(java_home, jvm, monkeypatch):
    """Nothing is raised then, which would lose the process."""
    home, processes, popen = java_home(SLEEPING), [], subprocess.Popen

    def interrupted(*args, **options):
        processes.append(popen(*args, **options))
        os.kill(os.getpid(), signal.SIGINT)
        return processes[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt), killing_on_signal(jvm):
        jvm.start(CONF, home / "spark.log")
    assert processes[0].wait(10) == -signal.SIGKILL


@pytest.mark.parametrize("to_file", [True, False])
def test_a_jvm_that_exits_during_its_start_is_an_error_with_its_exit_code_and_where_its_reason_is(
    java_home, jvm, capfd, to_file
):
    """There are many reasons besides Java's version, which was checked before."""
    home = java_home("echo no memory; exit 7")
    log = home / "spark.log" if to_file else None
    reason = f"the end of {log} says why" if to_file else "the lines before this one say why"
    with pytest.raises(MutationQuotaError) as raised:
        jvm.start(CONF, log)
    assert str(raised.value) == f"Spark's JVM ({home}/bin/java) has exited during its start (exit 7); {reason}"
    assert (log.read_text() if log else capfd.readouterr().out) == "no memory\n"


@pytest.mark.parametrize(("given", "name"), [(None, str(os.geteuid())), ("kafka", "kafka")])
def test_a_user_without_a_name_gets_one_and_a_home(java_home, monkeypatch, given, name):
    """Java has no home for it, and `?` in the place of its name; a known user is left to Java."""
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    if given:
        monkeypatch.setenv("HADOOP_USER_NAME", given)
    home = java_home('echo "$*" >> "$JAVA_HOME/options"; exit 1')
    for lookup in (pwd.getpwuid, Mock(side_effect=KeyError)):
        monkeypatch.setattr(pwd, "getpwuid", lookup)
        with pytest.raises(MutationQuotaError):
            (jvm := Jvm()).start(CONF, home / "spark.log")
        jvm.end()
    known, nameless = (home / "options").read_text().splitlines()
    folder = re.search(r"-Djava\.io\.tmpdir=(\S+)", nameless)[1]
    assert f" -Duser.home={folder} -Duser.name={name} org.apache.spark" in nameless
    assert "-Duser." not in known


def test_outside_the_main_thread_signals_are_not_handled(jvm):
    def handler():
        with killing_on_signal(jvm):
            return signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor() as pool:
        assert pool.submit(handler).result() == signal.getsignal(signal.SIGINT)


@pytest.fixture
def jars(tmp_path):
    files = [tmp_path / "a.jar", tmp_path / "b.jar"]
    for file in files:
        file.write_bytes(b"jar")
    return files


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "archives" / "of jobs"


def written_by(archive):
    """Return the file into which the JVM is to write the archive."""
    (option,) = [option for option in shlex.split(archive.options()) if "ArchiveClassesAtExit=" in option]
    return Path(option.partition("=")[2])


def write(archive):
    written_by(archive).write_bytes(b"classes")


def test_the_next_run_uses_the_archive_of_the_last_one(folder, jars):
    first = ClassArchive(folder, "enforce", jars)
    write(first)
    assert list(folder.glob("*.jsa")) == []  # a run that begins meanwhile uses no half of it
    first.save(ended=True)
    (kept,) = folder.iterdir()
    assert f"-XX:SharedArchiveFile={kept}" in shlex.split(ClassArchive(folder, "enforce", jars).options())
    assert "ArchiveClassesAtExit" not in ClassArchive(folder, "enforce", jars).options()


@pytest.mark.parametrize(("writes", "ended"), [(True, False), (False, True)], ids=["killed", "it wrote nothing"])
def test_a_jvm_without_a_whole_archive_leaves_nothing(folder, jars, writes, ended):
    archive = ClassArchive(folder, "enforce", jars)
    if writes:
        write(archive)
    archive.save(ended=ended)
    assert not folder.exists() or list(folder.iterdir()) == []


def test_an_archive_of_different_jars_replaces_the_old_one(folder, jars):
    old = ClassArchive(folder, "enforce", jars)
    write(old)
    old.save(ended=True)
    others = ClassArchive(folder, "audit", jars)
    write(others)
    others.save(ended=True)
    (before,) = folder.glob("enforce-*.jsa")
    os.utime(jars[0], (1, 1))
    new = ClassArchive(folder, "enforce", jars)
    write(new)
    new.save(ended=True)
    (after,) = folder.glob("enforce-*.jsa")
    assert after != before
    assert len(list(folder.glob("audit-*.jsa"))) == 1


def test_a_folder_that_cannot_be_created_costs_only_the_archive(tmp_path, jars, caplog):
    (tmp_path / "file").touch()
    assert ClassArchive(tmp_path / "file" / "archives", "enforce", jars).options() == ""
    assert "no class archive" in caplog.text
