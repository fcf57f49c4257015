"""The closed list of reasons for which a topic is rejected."""

import enum
from collections.abc import Iterable
from typing import Self

from quota.errors import ErrorCode


class Reason(enum.Enum):
    """Why a topic is rejected: of several reasons the first one counts, because waiting cures only the last.

    The list with its actions is in `docs/reference/errors.md`.
    """

    INVALID = "INVALID", ErrorCode.INVALID_REQUEST, "correct the request as the message says"
    EXCEEDS_LIMIT = "EXCEEDS_LIMIT", ErrorCode.POLICY_VIOLATION, "ask for less in one topic; waiting does not help"
    NO_DECISION = "NO_DECISION", ErrorCode.REQUEST_TIMED_OUT, "start enforce, or remove what hides requests from it"
    NO_TIME = "NO_TIME", ErrorCode.REQUEST_TIMED_OUT, "give the client a longer time limit"
    EXHAUSTED = "EXHAUSTED", ErrorCode.THROTTLING_QUOTA_EXCEEDED, "wait for the throttle time, then try again"

    code: ErrorCode
    """Kafka's error of such a topic."""
    action: str
    """What to do, in a clause."""

    def __new__(cls, name: str, code: ErrorCode, action: str) -> Self:
        """Return a member, which records name by its name alone."""
        member = object.__new__(cls)
        member._value_, member.code, member.action = name, code, action
        return member

    @classmethod
    def _missing_(cls, _: object) -> Self:
        """Read a reason of a newer program, which `Decision` corrects by its error code."""
        return cls.EXHAUSTED

    @classmethod
    def of_codes(cls, error_codes: Iterable[int]) -> "Reason | None":
        """Return the first reason of a decision by the error codes of its topics; None if it rejects none.

        Decisions of older programs have no other reasons than these codes.
        """
        codes = set(error_codes)
        return next((reason for reason in DECIDED if reason.code in codes), None)


DECIDED = (Reason.EXCEEDS_LIMIT, Reason.EXHAUSTED)
"""The reasons of decisions, which differ in their codes; the others are those of dead letters and gateways."""
