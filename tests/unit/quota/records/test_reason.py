"""The reasons of rejections: their rank, and their actions on the page of errors."""

import json

import pytest

from quota.records.decision import read_decision
from quota.records.reason import Reason
from tests.support.checkout import CHECKOUT
from tests.support.factories import DECISION_RECORD as DECISION

REJECTED = {"error": "THROTTLING_QUOTA_EXCEEDED", "error_message": "The throttling quota has been exceeded."}


def decision(*codes, **fields):
    topics = [DECISION["topics"][0] | ({"error_code": code} | REJECTED if code else {}) for code in codes]
    return read_decision(json.dumps(DECISION | {"shadow": None, "topics": topics} | fields).encode())


def test_the_page_of_errors_has_the_reasons_in_their_rank_with_kafkas_errors_and_the_actions():
    page = (CHECKOUT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    lines = page.partition("## Rejected topics\n")[2].partition("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    assert [(name.strip("`"), error, action) for name, error, _, action in rows] == [
        (reason.value, f"{reason.code.value} (`{reason.code.name}`)", reason.action) for reason in Reason
    ]


@pytest.mark.parametrize(
    ("codes", "reason"),
    [([0, 0], None), ([0, 89], "EXHAUSTED"), ([89, 44], "EXCEEDS_LIMIT"), ([36], None)],
)
def test_a_decision_has_the_gravest_reason_of_its_topics(codes, reason):
    """A client that waits only because of the other topic would wait in vain."""
    found = decision(*codes, outcome="PARTIAL").reason
    assert (found and found.value) == reason


def test_a_topic_that_an_older_program_has_rejected_has_a_reason():
    """Its record has none, and what replays it compares all fields."""
    read = decision(0, 89, 44, outcome="PARTIAL")
    assert [topic.reason for topic in read.topics] == [None, Reason.EXHAUSTED, Reason.EXCEEDS_LIMIT]


@pytest.mark.parametrize(("code", "reason"), [(44, Reason.EXCEEDS_LIMIT), (89, Reason.EXHAUSTED), (36, None)])
def test_a_reason_of_a_newer_program_is_read_as_that_of_its_error_code(code, reason):
    """Gateways are upgraded after or before the job; a decision that they cannot read would leave clients waiting."""
    topic = DECISION["topics"][0] | REJECTED | {"error_code": code, "reason": "A_NEW_ONE"}
    value = json.dumps(DECISION | {"shadow": None, "topics": [topic], "outcome": "REJECTED"})
    assert read_decision(value.encode()).topics[0].reason is reason
