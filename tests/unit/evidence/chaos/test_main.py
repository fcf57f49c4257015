"""The sections of the experiment: one that fails loses no results of the others."""

from argparse import Namespace

from tests.evidence.chaos import __main__ as chaos


def test_the_results_of_the_other_sections_are_kept(monkeypatch, tmp_path):
    def fail(*_):
        raise AssertionError("a debt is forgiven")

    monkeypatch.setattr(chaos, "SECTIONS", {"job": fail, "store": lambda *_: {"kills": 20}})
    results = chaos.play(Namespace(smoke=True, only=None), tmp_path, print)
    assert (results["store"], results["wrong"]) == ({"kills": 20}, ["job: AssertionError: a debt is forgiven"])
