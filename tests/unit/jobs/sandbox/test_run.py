"""The lines that `run` prints."""

from jobs.metrics.totals import DecisionTotals
from jobs.sandbox.run import poll_client, totals_line
from quota.algorithms.token_bucket import TokenBucket
from quota.records.quota import Window
from tests.support.factories import START, decide_all, resolved


class Client:
    """An unmodified client that has always something to say."""

    name = "kafka-topics.sh"

    def poll(self, _):
        return "--create: done"


def totals_of(*requests):
    totals = DecisionTotals(Window(), 10)
    _, decisions = decide_all(*requests, algorithm=TokenBucket(Window()))
    for decision in decisions:
        totals.record(decision, START)
    return totals


def test_a_line_has_the_totals_of_all_decisions():
    """At Q = 5 and B = 55: 55 - 60 = -5, so the second request is refused."""
    totals = totals_of(resolved(60, at=START, offset=0), resolved(1500, at=START + 1, offset=1))

    assert totals_line(totals) == "2 decisions; mutations: 60 admitted, 1,500 refused; dead letters: 0"
    assert totals_line(totals_of()) == "0 decisions; mutations: 0 admitted, 0 refused; dead letters: 0"


def test_clients_start_with_the_first_decision_and_their_output_is_a_line(capsys):
    poll_client(Client(), totals_of())
    assert capsys.readouterr().out == ""

    poll_client(Client(), totals_of(resolved(1, at=START, offset=0)))
    assert capsys.readouterr().out == "kafka-topics.sh --create: done\n"
