"""Counts."""

from quota.gateway.operations import MutationResponse
from quota.gateway.stats import GatewayStats
from quota.records.decision_request import DecisionReply
from quota.wire.headers import RequestHeader


def test_an_address_that_bypasses_the_gateway_is_logged_once_and_counted_each_time(caplog):
    stats = GatewayStats()
    for _ in range(3):
        stats.add_foreign([("elsewhere", 9092)])
    assert stats.foreign_addresses == 3
    (logged,) = (record.getMessage() for record in caplog.records)
    assert logged == (
        "a broker advertises elsewhere:9092, which bypasses this gateway; the address is removed from responses; "
        "unless the broker has just joined, make gateway.listeners and the broker's advertised.listeners agree"
    )


def test_the_line_of_the_log_has_the_sums():
    stats = GatewayStats(connections=2, accepted=5, relayed=9, undecided=1)
    for key in (19, 20, 37):
        topics = {("admitted", ""): 1, ("failed", ""): 2}
        stats.add_mutation(RequestHeader(key, 0, 1, None), MutationResponse({}, 0, topics))
    assert str(stats) == (
        "connections: 2 open, 5 accepted; requests relayed: 9; topics: 3 admitted, 0 rejected, 6 failed; "
        "without a decision in time: 1 request"
    )


def test_uncharged_mutations_are_counted_by_user_for_five_hundred_users():
    stats = GatewayStats()
    for number in (*range(501), 0):
        stats.add_uncharged(f"user-{number}", 2)
    counted = [stats.uncharged[user] for user in ("user-0", "user-499", "user-500", "")]
    assert (len(stats.uncharged), counted) == (501, [4, 2, 0, 2])


def test_silence_is_logged_once_until_a_decision_and_a_request_that_was_not_written_is_not(caplog):
    """The log says once that the job is silent; a client with a short timeout says nothing about the job."""
    stats = GatewayStats()
    caplog.set_level("INFO")
    for reply in (
        DecisionReply(least_decision_ms=400, was_requested=False),
        DecisionReply(waited_ms=10_000),
        DecisionReply(least_decision_ms=12_000, was_requested=False),
    ):
        stats.add_reply(reply)
    stats.add_decision(None)  # a late one
    for seconds in (0.1, 0.2):
        stats.add_decision(seconds)
    stats.add_reply(DecisionReply())
    silent = "no decision in time; check that mutation-quota enforce is running"
    assert caplog.messages == [silent, "receiving decisions again", silent]
    assert (stats.undecided, stats.late) == (4, 1)
    stats.add_decision(0.1)
    stats.add_reply(DecisionReply(cause="a transaction has been open"))
    assert caplog.messages[-1] == "no decision in time; a transaction has been open"


def test_connections_that_are_closed_for_one_reason_are_a_line_a_second(caplog):
    """Fifty clients try a broker that is down every 50 ms; another reason has lines of its own."""
    stats = GatewayStats()
    for now in range(0, 2000, 50):
        for client in range(50):
            stats.add_closed("broker", f"192.0.2.{client}", "the broker cannot be reached", now)
    with caplog.at_level("INFO"):
        stats.add_closed("malformed", "192.0.2.1", "no request", 1999)
    stats.add_closed("idle", "192.0.2.1", "", 1999)
    stats.add_closed("broker", "192.0.2.9", "the broker cannot be reached", 60_000)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "closing the connection of 192.0.2.0: the broker cannot be reached"),
        (
            "WARNING",
            "closing the connection of 192.0.2.0 (and 999 others for this reason): the broker cannot be reached",
        ),
        ("INFO", "closing the connection of 192.0.2.1: no request"),
        (
            "WARNING",
            "closing the connection of 192.0.2.9 (and 999 others for this reason): the broker cannot be reached",
        ),
    ]
    assert stats.closed == {"broker": 2001, "malformed": 1, "idle": 1}
