"""A standby that waits for another process, on a storage root in memory and with batches that cost nothing."""

import os
from contextlib import contextmanager
from types import SimpleNamespace

import msgspec
import pytest

from jobs.metrics.endpoint import ServiceEndpoint
from jobs.services import standby as module
from jobs.services.standby import Standby, StoppedStandby
from jobs.storage.holder import Holder
from jobs.storage.lease import Lease, LeaseWatch
from quota.settings import load_settings
from tests.support.memory_files import MemoryFiles, reject

SETTINGS = load_settings([], environment={}, with_default_file=False)


def lease_of(files, query, **holder):
    me = msgspec.structs.replace(Holder.here(os.getpid(), None), **holder)
    return Lease(files, LeaseWatch(query), 3600, me)


class Scene:
    """An active process of another machine, and a standby; its looks at the lease are steps of a test."""

    def __init__(self, monkeypatch):
        self.files, self.looks, self.stopped = MemoryFiles(), [], False
        self.stop = SimpleNamespace(wait=self._look, is_set=lambda: self.stopped)
        self.readiness, self.seconds, self.meanwhile, self.at_end = [], [], lambda: None, lambda: None
        self.active = [lease_of(self.files, query, id="first", machine="another", host="node-3") for query in QUERIES]
        self.endpoint = ServiceEndpoint(SETTINGS.metrics, "enforce")
        self.standby = Standby(self.endpoint)
        self.leases = [lease_of(self.files, query) for query in QUERIES]
        monkeypatch.setattr(module, "warm", self._warm)
        monkeypatch.setattr(module, "plan_answers", lambda _: PLAN)
        monkeypatch.setattr(module, "stop_signals", self._signals)

    @contextmanager
    def _signals(self):
        yield self.stop
        self.at_end()

    def wait(self):
        return self.standby.wait(SimpleNamespace(files=self.files), self.leases, take_over=False)

    def _look(self, seconds):
        if seconds:  # not between two rounds of batches
            self.looks.pop(0)()
        return self.stopped

    def be_stopped(self):
        self.stopped = True

    def _warm(self, _):
        self.readiness.append(self.ready())
        self.meanwhile()
        return self.seconds.pop(0) if self.seconds else 1.0

    def ready(self):
        health = self.endpoint._health  # noqa: SLF001 without a server
        return (health.ready().ok, health.ready().reason) if health else None


QUERIES = ("enforce", "audit")
PLAN = "the plan of the enforcing query"
REASON = "java.net.ConnectException: open on s3a://bucket/root: Connection refused"


@pytest.fixture
def scene(monkeypatch):
    return Scene(monkeypatch)


def holders(files):
    """Return the id of the holder of each lease that is not released."""
    texts = {path.split("/")[1]: msgspec.json.decode(text, type=Holder) for path, text in files.texts.items()}
    return {query: holder.id for query, holder in texts.items() if not holder.ended}


def test_the_first_process_on_a_root_does_not_wait(scene):
    scene.standby.answers, scene.standby.warm_since = PLAN, 1.0  # of a JVM that has ended with a lost lease
    assert scene.wait() is False
    assert (scene.readiness, scene.standby.warm_since, scene.standby.answers) == ([], 0.0, None)
    assert holders(scene.files).keys() == {"enforce"}  # the others are free


def test_a_standby_warms_until_its_batches_have_settled_and_takes_over_what_the_active_one_releases(scene):
    for lease in scene.active:
        lease.claim()
    written = dict(scene.files.texts)
    scene.seconds = [9.0, 2.0, 1.9]

    def waits():
        assert scene.files.texts == written
        scene.standby.looped_at -= 300  # as while a batch waits for brokers
        assert next(scene.standby.collect()).samples[0].value == scene.standby.warm_since
        assert scene.ready()[0]
        assert scene.ready()[1].startswith(f"it is ready; standing by for process {os.getpid()} on node-3, since 2")

    def waits_for_the_other():
        assert holders(scene.files) == {"enforce": "first"}

    scene.looks = [
        lambda: None,
        waits,
        scene.active[1].release,  # as at a clean stop: the last one first
        waits_for_the_other,
        scene.active[0].release,
    ]
    assert scene.wait() is True
    assert scene.readiness == [(False, "it is warming")] * 3
    assert scene.standby.answers == PLAN
    assert holders(scene.files)["enforce"] != "first"
    assert scene.ready() is None


def test_a_lease_that_expires_while_spark_is_warmed_is_acquired_before_batches_have_settled(scene):
    scene.active[0].claim()
    scene.seconds, scene.meanwhile = [9.0, 2.0, 1.0], scene.active[0].release
    assert scene.wait() is True
    assert (len(scene.readiness), scene.standby.warm_since, scene.standby.answers) == (1, 0.0, PLAN)


@pytest.mark.parametrize("settled", [1.0, None], ids=["", "where nothing can be warmed"])
def test_a_standby_that_is_stopped_claims_nothing(scene, settled):
    scene.active[0].claim()
    scene.seconds = [settled, settled]
    scene.looks = [lambda: None, scene.be_stopped]
    with pytest.raises(StoppedStandby):
        scene.wait()
    assert holders(scene.files) == {"enforce": "first"}


@pytest.mark.parametrize("moment", ["while it warms", "while it claims", "when its wait ends"])
def test_a_standby_that_is_stopped_when_the_lease_becomes_free_leaves_it_to_others(scene, monkeypatch, moment):
    scene.active[0].claim()
    scene.looks = [scene.active[0].release]
    if moment == "while it warms":
        scene.meanwhile = lambda: (scene.active[0].release(), scene.be_stopped())
    elif moment == "when its wait ends":
        scene.at_end = scene.be_stopped
    else:
        claim = scene.leases[0].try_claim
        monkeypatch.setattr(scene.leases[0], "try_claim", lambda **how: (claim(**how), scene.be_stopped())[0])
    with pytest.raises(StoppedStandby):
        scene.wait()
    assert holders(scene.files) == {}


def test_a_standby_survives_a_store_that_does_not_respond_and_is_not_ready_meanwhile(scene, monkeypatch, caplog):
    scene.active[0].claim()
    names = scene.files.names

    def recover():
        assert scene.ready() == (False, "the lease cannot be read: " + REASON)
        monkeypatch.setattr(scene.files, "names", names)

    def fail():
        monkeypatch.setattr(scene.files, "names", reject)

    scene.looks = [fail, lambda: None, recover, scene.active[0].release]
    assert scene.wait() is True
    assert [message for message in caplog.messages if message.endswith(REASON)] == caplog.messages[-1:]


def test_a_standby_names_the_process_that_it_waits_for_if_that_is_another_audit(scene):
    """Nobody decides meanwhile, which an operator has to know."""
    audit = lease_of(scene.files, "audit", id="other", machine="another", host="node-7")
    audit.claim()

    def waits():
        assert " on node-7, since " in scene.ready()[1]
        audit.release()

    scene.looks = [waits]
    assert scene.wait() is True


def test_of_two_standbys_one_takes_over_and_the_other_one_waits_for_it(scene):
    scene.active[0].claim()
    faster = lease_of(scene.files, "enforce", id="faster", machine="a third")

    def lose():
        scene.active[0].release()
        faster.claim()

    scene.looks = [lose, lambda: None, faster.release]
    assert scene.wait() is True
    assert holders(scene.files)["enforce"] not in {"first", "faster"}
