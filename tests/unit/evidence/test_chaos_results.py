"""The results of a chaos run, and their page."""

import json

from tests.evidence.chaos.__main__ import PAGE
from tests.evidence.chaos.brokers import BrokerTally, Failure
from tests.evidence.chaos.kills import Part, Tally
from tests.evidence.chaos.results import (
    broker_results,
    job_results,
    store_results,
    surroundings_results,
    versions,
)
from tests.evidence.chaos.steps import AuditStep, Step
from tests.evidence.chaos.store import StoreTally
from tests.evidence.chaos.surroundings import Surroundings
from tests.evidence.report import as_json, render
from tests.support.chaos.verdict import COPIES_DIFFER, LOST, Verdict


def test_the_page_has_the_figures_of_all_sections():
    """Of 12 copies two differ; the median of three starts is 9 s."""
    verdict = Verdict(requests=1000, decisions=990, refused=80, dead_letters=10, quota_changes=7, copies=12)
    verdict.wrong.update({COPIES_DIFFER: 2, LOST: 3})
    tally = Tally(random=4, at_steps=2, starts=[20.0, 8.0, 9.0], parts={Part.WORKERS: "it continued"})
    tally.steps[Step.STATE] = 5
    tally.audit_steps[AuditStep.DELTA] = 1
    brokers = BrokerTally(elections=[9.5], ended=["exited"])
    brokers.failures[Failure.CUT_OFF] = 6
    results = {
        "minutes": 55,
        "versions": versions(),
        "job": job_results(tally, verdict),
        "brokers": broker_results(brokers, verdict),
        "store": store_results(StoreTally(starting=1, running=2, starts=[19.7], compactions=4), verdict),
        "surroundings": surroundings_results(Surroundings(fills=88, stops=115, outage=183.0, wrong=[])),
    }
    page = render(PAGE.read_text(), json.loads(as_json(results)))
    for row in (
        "| kills | 7 |",
        "| start until the first committed batch, median, s | 9.0 |",
        "| records on the request topic | 1,000 |",
        "| byte-identical copies of answers, written after a kill | 10 |",
        f"| {LOST} | 3 |",
        f"| {Step.STATE.value} | 5 | 0 |",
        f"| {AuditStep.DELTA.value} | 1 | 0 |",
        f"| {Part.WORKERS.value} | it continued |",
        f"| {Failure.CUT_OFF.value} | 6 |",
        "| start until the first committed batch, median, s | 19.7 |",
        "| the broker was unavailable until enforce exited with a line that says so | 183 s |",
    ):
        assert row in page.splitlines()
