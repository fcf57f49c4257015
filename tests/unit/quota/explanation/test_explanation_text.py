"""Explanations as people read them."""

import msgspec
import pytest

from quota.explanation.explanation_text import explanation_lines
from tests.support.explanations import CHANGED, FIVE, RESET, WORKED, decided, decided_one_by_one, explained
from tests.support.factories import PERMISSIVE

STRICT = "since the client knows the error: each topic is admitted if K >= 0 when its turn comes, otherwise rejected"


def explain_as_text(decisions, number=-1, **more):
    return "\n".join(line.text for line in explanation_lines(explained(decisions, number, **more), 0))


def test_a_rejection_is_explained_in_the_order_of_its_causes():
    """KIP-599's own: K = -60 is paid back in 12 s."""
    sentence, *lines = explain_as_text(WORKED, 1, neighbours=1).splitlines()
    assert sentence.startswith("Creating topic 'topic-0' (80 mutations) was rejected because the quota of 5 ")
    assert lines == [
        "mutation-requests-0-1: REJECTED, wait 12 s, until 1970-01-01T00:00:12.000Z",
        "  operation   CREATE_TOPICS, topics: 1, mutations: 80",
        "  by          user 'alice', client-id '<none>'",
        "  request     r, at 1970-01-01T00:00:00.000Z",
        "  quota       Q = 5 mutations/s, set for user-principal 'alice'",
        "              B = 500 mutations at once",
        "              since the beginning by ann  # as agreed",
        "  bucket      of user 'alice', shared by all their client-ids",
        f"  mode        STRICT, {STRICT}",
        "  K before    -60: the bucket was written last by mutation-requests-0-0",
        "              K = min(K + t * Q, B) = min(-60 + 0 s * 5/s, 500) = -60 at 1970-01-01T00:00:00.000Z",
        "  charges     'topic-0' of 80: rejected, since K = -60 < 0; K stays",
        "  K after     -60",
        "  throttle    -K / Q = 60 / 5 s = 12 s, rounded up",
        "  answer      REJECTED, wait 12 s, until 1970-01-01T00:00:12.000Z",
        "  recomputed  the same, computed from the previous decision of the bucket",
        "Decisions of the same bucket before and after it:",
        "  00:00:00.000Z  mutation-requests-0-0  ADMITTED, 560 mutations, K 500 -> -60",
        "> 00:00:00.000Z  mutation-requests-0-1  REJECTED, 80 mutations, K -60 -> -60, wait 12 s",
        "  00:00:12.000Z  mutation-requests-0-2  ADMITTED, 80 mutations, K 0 -> -80",
    ]


DEBT = (0, [560], {})


@pytest.mark.parametrize(
    ("decisions", "log", "expected"),
    [
        (WORKED, [FIVE], "'topic-0' of 80: admitted, K = 0 - 80 = -80"),
        (WORKED, [FIVE], "none: no topic was rejected, though the next one will be"),
        (WORKED, [], "unknown since when and by whom"),
        (WORKED[:1], [FIVE], "500: no earlier decision charged the bucket, so it was full"),
        (WORKED[1:2], [FIVE], "K before is computed as 500, recorded -60: the table does not reach back"),
        (CHANGED, [FIVE], "K before -40 cannot be checked: the quota changed since the bucket was written"),
        (
            decided(DEBT, (2000, [80], {"reset_at": 1000})),
            [FIVE, RESET],
            "500: full, an operator reset the bucket at 1970-01-01T00:00:01.000Z",
        ),
        (decided(DEBT, (0, [5], {"api_version": PERMISSIVE})), [FIVE], "PERMISSIVE, since the client does not know"),
        (decided((0, [5], {"api_version": PERMISSIVE})), [FIVE], "none: K is not below 0"),
        (decided(DEBT, (2000, [80], {"validate_only": True})), [FIVE], "never charged, never rejected"),
        (decided(DEBT, (2000, [80], {"validate_only": True})), [FIVE], "admitted, and not charged; K = -50 stays"),
        (decided(DEBT, (2000, [80], {"shadow": True})), [FIVE], "would have been REJECTED, topics rejected: 1, wait"),
        (
            decided(DEBT, (1000, [560], {}), repeats_ms=5000),
            [FIVE],
            "admitted by mutation-requests-0-0; topics not charged again (the first ones): 1",
        ),
        (decided((0, [9], {"rate": None})), [FIVE], "none: no level had a quota at that time"),
        (decided((0, [9], {"rate": None, "exempt": True})), [FIVE], "none: the user is exempt (quota.exempt_users)"),
        (decided((0, [900], {"max_debt_ms": 10_000})), [FIVE], "K = 500 - 900, but no less than the bound on debt ="),
        (decided((0, [900], {"max_debt_ms": 10_000})), [FIVE], "no debt longer than 10 s"),
        (decided(DEBT, (0, [80], {"purgatory_ms": 2000})), [FIVE], "less 2 s that the request spent in purgatory"),
        (decided(DEBT, (0, [80], {"purgatory_ms": 20_000})), [FIVE], "less at least 12 s that the request spent in"),
        (decided(DEBT, (0, [80], {"request_throttle_ms": 15_000})), [FIVE], "throttle: 15 s, which is longer"),
        (
            decided((0, [2**31 - 1], {"rate": 1e-3}), (0, [1], {"rate": 1e-3})),
            [FIVE],
            "= 2147483.647 s, rounded up, the maximum",
        ),
    ],
)
def test_each_case_has_its_sentence(decisions, log, expected):
    assert expected in explain_as_text(decisions, log=log)


def test_a_late_request_gains_nothing_and_waits_until_the_time_of_the_bucket_too():
    """Its partition's clock is a second behind the one that wrote the bucket."""
    lines = explain_as_text(decided_one_by_one((10_000, [560], {}), (9000, [1], {"partition": 1}))).splitlines()
    assert (
        "K = -60: the request is late, 1 s before the time of the bucket, 1970-01-01T00:00:10.000Z, and gains"
        in lines[11]
    )
    assert lines[14] == "  throttle    -K / Q = 60 / 5 s + 1 s = 13 s, rounded up, until the time of the bucket"


def test_decisions_of_another_day_have_their_date():
    decisions = decided((0, [1], {}), (86_400_000, [1], {}))
    lines = explain_as_text(decisions, 1, neighbours=1).splitlines()
    assert lines[-2].startswith("  1970-01-01T00:00:00.000Z  mutation-requests-0-0  ADMITTED")
    assert lines[-1].startswith("> 00:00:00.000Z  mutation-requests-0-1  ADMITTED")


def test_a_difference_is_reported_with_both_numbers():
    changed = msgspec.structs.replace(WORKED[2], tokens=-81.0)
    assert "from the recorded K before: K after -80, recorded -81" in explain_as_text([*WORKED[:2], changed])


def test_only_the_first_and_the_last_of_thousands_of_topics_are_listed():
    lines = explain_as_text(decided((0, [1] * 100, {}))).splitlines()
    assert sum("admitted, K =" in line for line in lines) == 40
    assert any("... 60 more topics (-o json prints all) ..." in line for line in lines)


def test_names_cannot_control_the_terminal():
    written = msgspec.structs.replace(FIVE.record, comment="\x1b[2J")
    text = explain_as_text(WORKED, log=[msgspec.structs.replace(FIVE, record=written)])
    assert "\x1b" not in text
    assert r"\x1b[2J" in text
