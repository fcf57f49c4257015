"""A decision in one sentence, for the client that it concerns."""

from quota.records.decision import Decision, Outcome
from quota.records.request import Operation
from quota.text import describe_sharing, format_duration, format_rate, format_time, plural, quoted

_DOING = {
    Operation.CREATE_TOPICS: "Creating",
    Operation.CREATE_PARTITIONS: "Adding partitions to",
    Operation.DELETE_TOPICS: "Deleting",
}


_LEAST = 0.1
"""The least debt that is shown, because a debt decides."""


def summarize(decision: Decision, now: int) -> str:
    """Return what was decided, why, and when to try again, as of `now` (epoch ms)."""
    return f"{_what(decision)} {_answer(decision, now)}."


def _what(decision: Decision) -> str:
    topics = decision.topics
    which = f"topic {quoted(topics[0].name)}" if len(topics) == 1 else plural(len(topics), "topic")
    return f"{_DOING[decision.operation]} {which} ({plural(sum(topic.partitions for topic in topics), 'mutation')})"


def _answer(decision: Decision, now: int) -> str:
    verdict = decision.verdict
    if decision.validate_only:
        return "was only validated, which costs nothing"
    if decision.quota is None or decision.tokens is None:
        return f"was admitted: {'the user is exempt from quotas' if decision.exempt else 'no quota applied'}"
    if verdict.outcome is Outcome.ADMITTED and verdict.controller_throttle_ms:
        return (
            f"was admitted, but the client had to wait {format_duration(verdict.throttle_time_ms)}, because "
            f"{_overdrawn(decision)}"
        )
    if verdict.outcome is Outcome.ADMITTED:
        return f"was admitted: {_quota(decision)} had {_mutations(decision.tokens_before or 0)} left"
    if decision.shadow:
        return f"would have been {_rejected(decision)}, but this quota is in shadow, which admits everything"
    return f"was {_rejected(decision)}; {_retry(decision, now)}"


def _rejected(decision: Decision) -> str:
    codes = decision.error_codes
    rejected = sum(map(bool, codes))
    which = "" if rejected == len(codes) else f" in part ({rejected:,} of {plural(len(codes), 'topic')})"
    return f"rejected{which} because {_overdrawn(decision)}"


def _retry(decision: Decision, now: int) -> str:
    at = format_time(decision.retry_at)
    left = decision.retry_at - now
    return f"try again in {format_duration(left)}, at {at}" if left > 0 else f"it could be tried again from {at} on"


def _overdrawn(decision: Decision) -> str:
    return f"{_quota(decision)} was overdrawn by {_mutations(-(decision.tokens or 0))}"


def _quota(decision: Decision) -> str:
    sharing = describe_sharing(dict(decision.tags.items()))
    return f"the quota of {format_rate(decision.quota or 0)} {sharing}{',' if ', shared by' in sharing else ''}"


def _mutations(tokens: float) -> str:
    text = f"{max(tokens, _LEAST) if tokens > 0 else 0:,.1f}".removesuffix(".0")
    return f"{text} mutation" if text == "1" else f"{text} mutations"
