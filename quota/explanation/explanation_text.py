"""The explanation of a decision as text: a sentence for the client that it concerns, and the steps of the decision."""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from quota.algorithms.token_bucket import MAX_THROTTLE_MS
from quota.errors import ErrorCode
from quota.explanation.explanation import Charge, Explanation, Gain, Recomputed
from quota.records.decision import BucketBefore, Decision, Outcome, Withdrawal
from quota.records.quota_log import LIMIT_CONFIG
from quota.records.request import Mode, Operation
from quota.text import describe_sharing, format_duration, format_rate, format_time, plural, printable, quoted

_NAMED = 10
"""The number of those who are named with their shares of a bucket."""
_TOPICS_AT_EACH_END = 20
"""The number of topics printed from either end of a request, which may have thousands."""

_TEXT_INDENT = 14

_DOING = {
    Operation.CREATE_TOPICS: "Creating",
    Operation.CREATE_PARTITIONS: "Adding partitions to",
    Operation.DELETE_TOPICS: "Deleting",
}

_LEAST = 0.1
"""The least debt that is shown, because a debt decides."""

_MODES = {
    Mode.STRICT: "since the client knows the error: each topic is admitted if K >= 0 when its turn comes, "
    "otherwise rejected",
    Mode.PERMISSIVE: "since the client does not know the error: every topic is admitted and charged, then the client "
    "is throttled if K < 0",
}


class ExplanationRow(NamedTuple):
    """A line of an explanation: the name of its part, which is empty if the part continues, and the text."""

    part: str
    text: str


def explanation_lines(explanation: Explanation, now: int) -> Iterator[tuple[str, int]]:
    """Yield the lines of an explanation at `now` (epoch ms): a sentence for the client, and the decision's steps.

    With each line comes the indentation of its continuation on a narrow terminal, in characters.
    """
    decision = explanation.decision
    yield summarize(decision, now), 0
    yield f"{printable(decision.decision_id)}: {decision.outcome.value}, {_throttling(decision)}", 2
    for row in explanation_rows(explanation):
        yield f"  {row.part:11} {row.text}", _TEXT_INDENT


def format_shares(charged: Mapping[str, int]) -> str:
    """Return in words who made the mutations that a bucket was charged, and their shares."""
    total = sum(charged.values())
    names = [f"{quoted(name)} {mutations / total:.0%}" for name, mutations in charged.items() if mutations]
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{plural(total, 'mutation')}, of {', '.join(names[:_NAMED])}{more}"


def explanation_rows(explanation: Explanation) -> Iterator[ExplanationRow]:
    """Yield the lines on the decision itself, in the order in which it was made, and those on its client since then."""
    decision = explanation.decision
    mutations = sum(topic.partitions for topic in decision.topics)
    yield ExplanationRow(
        "operation", f"{decision.operation.value}, topics: {len(decision.topics)}, mutations: {mutations}"
    )
    yield ExplanationRow("by", f"user {quoted(decision.user)}, client-id {quoted(decision.client_id)}")
    yield ExplanationRow("request", f"{printable(decision.request_id)}, at {format_time(decision.timestamp)}")
    if explanation.metadata_at is not None:
        age = format_duration(decision.timestamp - explanation.metadata_at)
        yield ExplanationRow(
            "metadata", f"the callback had the cluster's of {format_time(explanation.metadata_at)}, {age} before"
        )
    if decision.quota is None:
        yield ExplanationRow("quota", _why_unlimited(decision))
        yield from _answer_lines(explanation)
        return
    yield from _quota_lines(explanation)
    yield ExplanationRow("mode", f"{decision.mode.value}, {_MODES[decision.mode]}")
    if decision.withdraws:
        yield ExplanationRow("withdrawal", _withdrawn(decision.withdraws))
    elif decision.validate_only:
        yield ExplanationRow("", "validate_only: never charged, never rejected")
    if decision.repeats:
        yield ExplanationRow(
            "repeat",
            f"the same request was admitted by {printable(decision.repeats.decision_id)}; "
            f"topics not charged again (the first ones): {decision.repeats.topics}",
        )
    for topics, when in ((decision.unrecorded, "before"), (explanation.unrecorded_after, "after")):
        if topics:
            count = plural(topics, "topic")
            yield ExplanationRow("gateway", f"{when} this, rejected {count} without a record, since it knew the debt")
    if decision.observed:
        observed = decision.observed
        rejected = f"topics rejected: {sum(map(bool, observed.error_codes))}"
        wait = f"wait {format_duration(observed.throttle_time_ms)}"
        yield ExplanationRow("observed", f"the cluster has answered without this decision: {rejected}, {wait}")
    yield from _before_lines(explanation)
    yield from _charge_lines(decision, explanation.charges)
    yield from _answer_lines(explanation)


def _number(value: float) -> str:
    """Format tokens or a rate without the digits of rounding errors."""
    return f"{value + 0.0:.10g}"


def _seconds(milliseconds: int) -> str:
    """Format a term of a formula, to the millisecond."""
    return f"{_number(milliseconds / 1000)} s"


def _throttling(decision: Decision) -> str:
    if not decision.throttle_time_ms:
        return "no wait"
    return f"wait {format_duration(decision.throttle_time_ms)}, until {format_time(decision.retry_at)}"


def _why_unlimited(decision: Decision) -> str:
    if decision.exempt:
        return "none: the user is exempt (quota.exempt_users), no bucket is charged"
    by = f"{printable(decision.callback)} returned no quota" if decision.callback else "no level had a quota"
    return f"none: {by} at that time; admitted, and no bucket is charged"


def _quota_lines(explanation: Explanation) -> Iterator[ExplanationRow]:
    decision = explanation.decision
    whose = f", set for {decision.quota_entity}" if decision.quota_entity else ""
    callback = f", by {printable(decision.callback)}" if decision.callback else ""
    limit = decision.max_request_mutations
    most = "" if limit is None else f", and {limit} for one topic ({LIMIT_CONFIG})"
    debt = "" if decision.max_debt_ms is None else f", no debt longer than {format_duration(decision.max_debt_ms)}"
    yield ExplanationRow("quota", f"Q = {format_rate(decision.quota or 0)}{whose}{callback}")
    yield ExplanationRow("", f"B = {_number(decision.burst or 0)} mutations at once{most}{debt}")
    if decision.shadow:
        yield ExplanationRow("", "in shadow mode: only reported, everything is admitted")
    yield ExplanationRow("bucket", describe_sharing(dict(decision.tags.items())))


def _before_lines(explanation: Explanation) -> Iterator[ExplanationRow]:
    decision, before = explanation.decision, explanation.decision.bucket_before
    if decision.tokens_before is None:  # a simulated quota without tokens
        return
    recorded = _number(decision.tokens_before)
    if before is None:
        text = "as recorded by an older program, which did not record the bucket before a decision"
        yield ExplanationRow("K before", f"{recorded}, {text}")
        return
    yield ExplanationRow("K before", f"{recorded}: {_origin(before)}")
    if before.updated_at is not None and before.set_back_to is not None:
        moments = f"from {format_time(before.updated_at)} to {format_time(before.set_back_to)}"
        yield ExplanationRow("", f"the clock of its partition was set back, and T with it: {moments}")
    for gain in explanation.gains:
        yield ExplanationRow("", _refill_formula(gain))


def _origin(before: BucketBefore) -> str:
    if before.updated_at is None and before.reset_at is not None:
        return f"full, an operator reset the bucket at {format_time(before.reset_at)}"
    if before.updated_at is None:
        return "no earlier request had charged the bucket, so it was full"
    changed = f", and its quota was {format_rate(before.quota)}" if before.changed_at is not None else ""
    return f"the bucket had K = {_number(before.tokens)} at T = {format_time(before.updated_at)}{changed}"


def _refill_formula(gain: Gain) -> str:
    if gain.late_ms:
        late = f"{_seconds(gain.late_ms)} before the time of the bucket, {format_time(gain.since)}"
        return f"K = {_number(gain.tokens)}: the request is late, {late}, and gains nothing"
    seconds = _number((gain.until - gain.since) / 1000)
    return (
        f"K = min(K + t * Q, B) = min({_number(gain.tokens_before)} + {seconds} s * {_number(gain.rate)}/s, "
        f"{_number(gain.burst)}) = {_number(gain.tokens)} at {format_time(gain.until)}"
    )


def _charge_lines(decision: Decision, charges: list[Charge]) -> Iterator[ExplanationRow]:
    name, quota = "charges", decision.applied_quota
    limit = quota.topic_limit if quota else math.inf
    for charge in charges[:_TOPICS_AT_EACH_END]:
        yield ExplanationRow(name, _charge_text(charge, limit))
        name = ""
    left_out = len(charges) - 2 * _TOPICS_AT_EACH_END
    if left_out > 0:
        yield ExplanationRow("", f"... {plural(left_out, 'more topic')} (-o json prints all) ...")
    for charge in charges[max(_TOPICS_AT_EACH_END, len(charges) - _TOPICS_AT_EACH_END) :]:
        yield ExplanationRow("", _charge_text(charge, limit))
    yield ExplanationRow("K after", _number(decision.tokens or 0))


def _charge_text(charge: Charge, limit: float) -> str:
    before, after, cost = _number(charge.tokens_before), _number(charge.tokens), charge.partitions
    topic = f"{quoted(charge.name)} of {cost}:"
    if not charge.admitted and cost > limit:
        return f"{topic} rejected, since {cost} > {LIMIT_CONFIG} = {limit}; K = {before} stays"
    if not charge.admitted:
        return f"{topic} rejected, since K = {before} < 0; K stays"
    if not charge.charged:
        return f"{topic} admitted, and not charged; K = {before} stays"
    if charge.tokens > charge.tokens_before - cost:
        return f"{topic} admitted, K = {before} - {cost}, but no less than the bound on debt = {after}"
    return f"{topic} admitted, K = {before} - {cost} = {after}"


def _answer_lines(explanation: Explanation) -> Iterator[ExplanationRow]:
    """Yield the lines on the answer, and those on the client since then."""
    decision = explanation.decision
    verdict = decision.verdict
    bucket_ms, request_ms = verdict.controller_throttle_ms, decision.request_throttle_ms
    if decision.quota is not None:
        last = explanation.gains[-1] if explanation.gains else None
        rate, late_ms = (last.rate, last.late_ms) if last else (decision.quota, 0)
        yield ExplanationRow("throttle", _throttle_formula(decision, bucket_ms, rate, late_ms))
    if explanation.purgatory_ms:
        at_least = "at least " if verdict.throttle_time_ms <= request_ms else ""
        yield ExplanationRow(
            "", f"less {at_least}{_seconds(explanation.purgatory_ms)} that the request spent in purgatory"
        )
    if request_ms:
        longer = "which is longer" if request_ms > bucket_ms - explanation.purgatory_ms else "which is not longer"
        yield ExplanationRow("", f"the request quota's own throttle: {_seconds(request_ms)}, {longer}")
    if shadow := decision.shadow:
        wait = f"wait {format_duration(shadow.throttle_time_ms)}"
        rejected = f"topics rejected: {sum(map(bool, shadow.error_codes))}"
        yield ExplanationRow("shadow", f"would have been {shadow.outcome.value}, {rejected}, {wait}")
    yield ExplanationRow("answer", f"{decision.outcome.value}, {_throttling(decision)}")
    if decision.reason:
        yield ExplanationRow("reason", f"{decision.reason.value}: {decision.reason.action}")
    if explanation.recomputed:
        yield ExplanationRow("recomputed", _comparison(decision, explanation.recomputed))
    if explanation.last_hour:
        yield ExplanationRow("last hour", format_shares(explanation.last_hour))
    for scheduled in explanation.scheduled:
        yield ExplanationRow("scheduled", scheduled.change)


def _throttle_formula(decision: Decision, bucket_ms: int, rate: float, late_ms: int) -> str:
    tokens = decision.tokens or 0
    if bucket_ms:
        bound = ", the maximum" if bucket_ms == MAX_THROTTLE_MS else ""
        debt, late = f"{_number(-tokens)} / {_number(rate)} s", f" + {_seconds(late_ms)}" if late_ms else ""
        until = ", until the time of the bucket" if late_ms else ""
        return f"-K / Q = {debt}{late} = {_seconds(bucket_ms)}, rounded up{until}{bound}"
    if decision.validate_only:
        return "none: nothing was charged"
    if _exceeding(decision):
        return f"none: a topic that exceeds {LIMIT_CONFIG} throttles nobody"
    if decision.mode is Mode.STRICT:
        return "none: no topic was rejected" + (", though the next one will be" if tokens < 0 else "")
    return "none: K is not below 0"


def _comparison(decision: Decision, again: Recomputed) -> str:
    if not again.differs:
        return "the same"
    rejected, recorded_rejected = sum(map(bool, again.error_codes)), sum(map(bool, decision.error_codes))
    texts = {
        "tokens_before": f"K before {_exact(again.tokens_before)}, recorded {_exact(decision.tokens_before)}",
        "topics": f"topics rejected: {rejected}, recorded {recorded_rejected}",
        "tokens": f"K after {_exact(again.tokens)}, recorded {_exact(decision.tokens)}",
        "controller_throttle_ms": f"throttle {_seconds(again.controller_throttle_ms)}, "
        f"recorded {_seconds(decision.verdict.controller_throttle_ms)}",
    }
    return "; ".join(texts.get(name, name) for name in again.differs) + ": this is not the record that enforce wrote"


def _exact(tokens: float | None) -> str:
    """Format tokens with all digits, as a difference may be in the last one."""
    return "null" if tokens is None else repr(tokens).removesuffix(".0")


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
        withdraws = decision.withdraws
        return f"was withdrawn: {_withdrawn(withdraws)}" if withdraws else "was only validated, which costs nothing"
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


def _withdrawn(withdraws: Withdrawal) -> str:
    if withdraws.decision_id is None:
        return "no charge of this attempt alone is remembered, so nothing was given back"
    return f"{_mutations(withdraws.mutations)} of {printable(withdraws.decision_id)} were given back, up to the burst"


def _rejected(decision: Decision) -> str:
    codes = decision.error_codes
    rejected = sum(map(bool, codes))
    which = "" if rejected == len(codes) else f" in part ({rejected:,} of {plural(len(codes), 'topic')})"
    exceeding = _exceeding(decision)
    reasons = [_overdrawn(decision)] if exceeding < rejected else []
    if exceeding:
        limit = f"the {decision.max_request_mutations or 0:,} mutations that one may cost ({LIMIT_CONFIG})"
        reasons.append(f"{plural(exceeding, 'topic')} exceeded {limit}")
    return f"rejected{which} because {' and '.join(reasons)}"


def _exceeding(decision: Decision) -> int:
    """Return the number of topics that were rejected because they exceed the limit of the quota."""
    return decision.error_codes.count(ErrorCode.POLICY_VIOLATION)


def _retry(decision: Decision, now: int) -> str:
    if _exceeding(decision) == sum(map(bool, decision.error_codes)):
        return "waiting does not help"
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
