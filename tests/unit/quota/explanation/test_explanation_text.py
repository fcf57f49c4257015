"""Explanations as people read them, and their first sentence, for the client."""

import msgspec
import pytest

from quota.explanation.explanation import explain
from quota.explanation.explanation_text import explanation_lines, summarize
from tests.support.explanations import CHANGED, WORKED, decided
from tests.support.factories import PERMISSIVE

STRICT = "since the client knows the error: each topic is admitted if K >= 0 when its turn comes, otherwise rejected"


def explain_as_text(decision):
    return "\n".join(text for text, _ in explanation_lines(explain(decision), 0))


def test_a_rejection_is_explained_in_the_order_of_its_causes():
    """KIP-599's own: K = -60 is paid back in 12 s."""
    sentence, *lines = explain_as_text(WORKED[1]).splitlines()
    assert sentence.startswith("Creating topic 'topic-0' (80 mutations) was rejected because the quota of 5 ")
    assert lines == [
        "mutation-requests-0-1: REJECTED, wait 12 s, until 1970-01-01T00:00:12.000Z",
        "  operation   CREATE_TOPICS, topics: 1, mutations: 80",
        "  by          user 'alice', client-id '<none>'",
        "  request     r, at 1970-01-01T00:00:00.000Z",
        "  quota       Q = 5 mutations/s, set for user-principal 'alice'",
        "              B = 500 mutations at once",
        "  bucket      of user 'alice', shared by all their client-ids",
        f"  mode        STRICT, {STRICT}",
        "  K before    -60: the bucket had K = -60 at T = 1970-01-01T00:00:00.000Z",
        "              K = min(K + t * Q, B) = min(-60 + 0 s * 5/s, 500) = -60 at 1970-01-01T00:00:00.000Z",
        "  charges     'topic-0' of 80: rejected, since K = -60 < 0; K stays",
        "  K after     -60",
        "  throttle    -K / Q = 60 / 5 s = 12 s, rounded up",
        "  answer      REJECTED, wait 12 s, until 1970-01-01T00:00:12.000Z",
        "  reason      EXHAUSTED: wait for the throttle time, then try again",
        "  recomputed  the same",
    ]


DEBT = (0, [560], {})
BACK = (2000, [560], {"validate_only": True, "withdraws": True})
QUOTA = "the quota of 5 mutations/s of user 'alice', shared by all their client-ids,"
OBSERVED = {"at": 0, "error_codes": [89], "throttle_time_ms": 7}


@pytest.mark.parametrize(
    ("decisions", "expected"),
    [
        (WORKED, "'topic-0' of 80: admitted, K = 0 - 80 = -80"),
        (WORKED, "none: no topic was rejected, though the next one will be"),
        (decided((0, [51], {"max_request_mutations": 50})), "rejected, since 51 > max_request_mutations = 50; K = 500"),
        (
            decided((0, [51], {"max_request_mutations": 50})),
            "none: a topic that exceeds max_request_mutations throttles",
        ),
        (WORKED[:1], "500: no earlier request had charged the bucket, so it was full"),
        (CHANGED, "-40: the bucket had K = -60 at T = 1970-01-01T00:00:00.000Z, and its quota was 5 mutations/s"),
        (CHANGED, "min(-60 + 2 s * 5/s, 500) = -50 at 1970-01-01T00:00:02.000Z"),
        (CHANGED, "min(-50 + 1 s * 10/s, 1000) = -40 at 1970-01-01T00:00:03.000Z"),
        (decided((9000, [560], {}), (5000, [1], {})), "set back, and T with it: from 1970-01-01T00:00:09.000Z to"),
        (
            decided(DEBT, (2000, [80], {"reset_at": 1000})),
            "500: full, an operator reset the bucket at 1970-01-01T00:00:01.000Z",
        ),
        (decided(DEBT, (0, [5], {"api_version": PERMISSIVE})), "PERMISSIVE, since the client does not know"),
        (decided((0, [5], {"api_version": PERMISSIVE})), "none: K is not below 0"),
        (decided(DEBT, (2000, [80], {"validate_only": True})), "never charged, never rejected"),
        (decided(DEBT, (2000, [80], {"validate_only": True})), "admitted, and not charged; K = -50 stays"),
        (decided(DEBT, (2000, [80], {"shadow": True})), "would have been REJECTED, topics rejected: 1, wait"),
        (
            decided(DEBT, (1000, [560], {}), repeats_ms=5000),
            "admitted by mutation-requests-0-0; topics not charged again (the first ones): 1",
        ),
        (
            decided(DEBT, BACK, repeats_ms=5000),
            "560 mutations of mutation-requests-0-0 were given back, up to the burst",
        ),
        (decided(DEBT, BACK), "no charge of this attempt alone is remembered, so nothing was given back"),
        (decided((0, [9], {"rate": None})), "none: no level had a quota at that time"),
        (decided((0, [9], {"rate": None, "exempt": True})), "none: the user is exempt (quota.exempt_users)"),
        (decided((0, [900], {"max_debt_ms": 10_000})), "K = 500 - 900, but no less than the bound on debt ="),
        (
            decided((0, [9], {"shadow": True, "observed": OBSERVED})),
            "observed    the cluster has answered without this decision: topics rejected: 1, wait 7 ms",
        ),
        (decided((0, [900], {"max_debt_ms": 10_000})), "no debt longer than 10 s"),
        (decided(DEBT, (0, [80], {"purgatory_ms": 2000})), "less 2 s that the request spent in purgatory"),
        (decided(DEBT, (0, [80], {"purgatory_ms": 20_000})), "less at least 12 s that the request spent in"),
        (decided(DEBT, (0, [80], {"request_throttle_ms": 15_000})), "throttle: 15 s, which is longer"),
        (
            decided((0, [2**31 - 1], {"rate": 1e-3}), (0, [1], {"rate": 1e-3})),
            "= 2147483.647 s, rounded up, the maximum",
        ),
    ],
)
def test_each_case_has_its_sentence(decisions, expected):
    assert expected in explain_as_text(decisions[-1])


def test_a_late_request_gains_nothing_and_waits_until_the_time_of_the_bucket_too():
    """Its partition's clock is a second behind the one that wrote the bucket, and its rate is an earlier one."""
    late = (9000, [1], {"partition": 1, "rate": 20.0})
    lines = explain_as_text(decided((10_000, [560], {}), late)[1]).splitlines()
    assert (
        "K = -60: the request is late, 1 s before the time of the bucket, 1970-01-01T00:00:10.000Z, and gains"
        in lines[10]
    )
    assert lines[13] == "  throttle    -K / Q = 60 / 5 s + 1 s = 13 s, rounded up, until the time of the bucket"


def test_a_difference_is_reported_with_both_numbers():
    changed = msgspec.structs.replace(WORKED[2], tokens=-80.00000000000001, retry_at=5)
    text = explain_as_text(changed)
    assert "recomputed  retry_at; K after -80, recorded -80.00000000000001: this is not the record that enforce" in text


def test_a_record_of_an_older_program_says_so_in_one_line():
    lines = explain_as_text(msgspec.structs.replace(WORKED[2], bucket_before=None)).splitlines()
    note = "as recorded by an older program, which did not record the bucket before a decision"
    assert [line for line in lines if "recorded" in line or "recomputed" in line] == [f"  K before    0, {note}"]
    assert "  charges     'topic-0' of 80: admitted, K = 0 - 80 = -80" in lines


def test_only_the_first_and_the_last_of_thousands_of_topics_are_listed():
    lines = explain_as_text(decided((0, [1] * 100, {}))[0]).splitlines()
    assert sum("admitted, K =" in line for line in lines) == 40
    assert any("... 60 more topics (-o json prints all) ..." in line for line in lines)


def test_names_cannot_control_the_terminal():
    text = explain_as_text(decided((0, [1], {"request_id": "\x1b[2J", "client_id": "\x1b[1m"}))[0])
    assert "\x1b" not in text
    assert r"\x1b[2J" in text


@pytest.mark.parametrize(
    ("now", "when"),
    [
        (0, "try again in 12 s, at 1970-01-01T00:00:12.000Z"),
        (12_000, "it could be tried again from 1970-01-01T00:00:12.000Z on"),
    ],
)
def test_a_rejection_says_why_and_when_to_try_again(now, when):
    """KIP-599's own: K = -60 is paid back in 12 s."""
    assert summarize(WORKED[1], now) == (
        f"Creating topic 'topic-0' (80 mutations) was rejected because {QUOTA} was overdrawn by 60 mutations; {when}."
    )


@pytest.mark.parametrize(
    ("decisions", "said"),
    [
        (decided((0, [80], {})), f"was admitted: {QUOTA} had 500 mutations left."),
        (
            decided((0, [500, 1, 1], {})),
            f"was rejected in part (1 of 3 topics) because {QUOTA} was overdrawn by 1 mutation;",
        ),
        (
            decided(DEBT, (0, [5], {"api_version": PERMISSIVE})),
            f"was admitted, but the client had to wait 13 s, because {QUOTA} was overdrawn by 65 mutations.",
        ),
        (
            decided(DEBT, (2000, [80], {"shadow": True})),
            f"would have been rejected because {QUOTA} was overdrawn by 50 mutations, but this quota is in shadow",
        ),
        (decided(DEBT, (0, [5], {"validate_only": True})), "was only validated, which costs nothing."),
        (decided(DEBT, BACK, repeats_ms=5000), "was withdrawn: 560 mutations of mutation-requests-0-0 were given back"),
        (decided((0, [9], {"rate": None})), "was admitted: no quota applied."),
        (decided((0, [9], {"rate": None, "exempt": True})), "was admitted: the user is exempt from quotas."),
    ],
)
def test_each_outcome_has_its_first_sentence(decisions, said):
    assert said in summarize(decisions[-1], 0)
