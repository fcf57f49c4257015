"""A standby that waits for another process, on a storage root in memory and with batches that cost nothing."""

import os
from contextlib import nullcontext
from types import SimpleNamespace

import msgspec
import pytest

from jobs.metrics.endpoint import ServiceEndpoint
from jobs.services import standby as module
from jobs.services.standby import Standby, StoppedStandby
from jobs.storage.holder import Holder
from jobs.storage.lease import Lease, LeaseWatch
from quota.settings import load_settings
from tests.support.memory_files import MemoryFiles

SETTINGS = load_settings([], environment={}, with_default_file=False)


def lease_of(files, query, **holder):
    me = msgspec.structs.replace(Holder.here(os.getpid(), None), **holder)
    return Lease(files, LeaseWatch(query), 3600, me)


class Scene:
    """An active process of another machine, and a standby; its looks at the lease are steps of a test."""

    def __init__(self, monkeypatch):
        self.files, self.stop, self.looks = MemoryFiles(), SimpleNamespace(wait=self._look), []
        self.batches, self.seconds, self.meanwhile = [], [], lambda: None
        self.active = [lease_of(self.files, query, id="first", machine="another", host="node-3") for query in QUERIES]
        self.endpoint = ServiceEndpoint(SETTINGS.metrics, "enforce")
        self.standby = Standby(self.endpoint)
        self.leases = [lease_of(self.files, query) for query in QUERIES]
        monkeypatch.setattr(module, "warm", self._warm)
        monkeypatch.setattr(module, "stop_signals", lambda: nullcontext(self.stop))

    def wait(self):
        return self.standby.wait(SimpleNamespace(files=self.files), self.leases, take_over=False)

    def _look(self, seconds):
        return self.looks.pop(0)() if seconds else False  # between two rounds of batches

    def _warm(self, _, batches):
        self.batches.append((batches, self.ready()))
        self.meanwhile()
        return self.seconds.pop(0) if self.seconds else 1.0

    def ready(self):
        health = self.endpoint._health  # noqa: SLF001 without a server
        return (health.ready().ok, health.ready().reason) if health else None


QUERIES = ("enforce", "audit")


@pytest.fixture
def scene(monkeypatch):
    return Scene(monkeypatch)


def holders(files):
    """Return the id of the holder of each lease that is not released."""
    texts = {path.split("/")[1]: msgspec.json.decode(text, type=Holder) for path, text in files.texts.items()}
    return {query: holder.id for query, holder in texts.items() if not holder.ended}


def test_the_first_process_on_a_root_does_not_wait(scene):
    assert scene.wait() is False
    assert (scene.batches, scene.standby.warm_since) == ([], 0.0)
    assert holders(scene.files).keys() == {"enforce"}  # the others are free


def test_a_standby_warms_until_its_batches_have_settled_and_takes_over_what_the_active_one_releases(scene):
    for lease in scene.active:
        lease.claim()
    written = dict(scene.files.texts)
    scene.seconds = [9.0, 2.0, 1.9]

    def waits():
        assert scene.files.texts == written
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
    assert [batches for batches, _ in scene.batches] == [4, 4, 4]
    assert {answer for _, answer in scene.batches} == {(False, "it is warming")}
    assert holders(scene.files)["enforce"] != "first"
    assert scene.ready() is None


def test_a_lease_that_expires_while_spark_is_warmed_is_acquired_before_batches_have_settled(scene):
    scene.active[0].claim()
    scene.seconds, scene.meanwhile = [9.0, 2.0, 1.0], scene.active[0].release
    assert scene.wait() is True
    assert (len(scene.batches), scene.standby.warm_since) == (1, 0.0)


@pytest.mark.parametrize("settled", [1.0, None], ids=["", "where nothing can be warmed"])
def test_a_standby_that_is_stopped_claims_nothing(scene, settled):
    scene.active[0].claim()
    scene.seconds = [settled, settled]
    scene.looks = [lambda: None, lambda: True]
    with pytest.raises(StoppedStandby):
        scene.wait()
    assert holders(scene.files) == {"enforce": "first"}


def test_of_two_standbys_one_takes_over_and_the_other_one_waits_for_it(scene):
    scene.active[0].claim()
    faster = lease_of(scene.files, "enforce", id="faster", machine="a third")

    def lose():
        scene.active[0].release()
        faster.claim()

    scene.looks = [lose, lambda: None, faster.release]
    assert scene.wait() is True
    assert holders(scene.files)["enforce"] not in {"first", "faster"}
