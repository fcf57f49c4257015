"""Decisions in one sentence, for the clients that they concern."""

import pytest

from quota.explanation.summary import summarize
from tests.support.explanations import WORKED, decided
from tests.support.factories import PERMISSIVE

DEBT = (0, [560], {})
QUOTA = "the quota of 5 mutations/s of user 'alice', shared by all their client-ids,"


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
        (decided((0, [9], {"rate": None})), "was admitted: no quota applied."),
        (decided((0, [9], {"rate": None, "exempt": True})), "was admitted: the user is exempt from quotas."),
    ],
)
def test_each_outcome_has_its_sentence(decisions, said):
    assert said in summarize(decisions[-1], 0)
