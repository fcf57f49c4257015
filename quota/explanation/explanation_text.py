"""The explanation of a decision as text."""

from collections.abc import Iterator
from typing import NamedTuple

from quota.algorithms.token_bucket import MAX_THROTTLE_MS
from quota.explanation.explanation import Charge, Explanation, Neighbour, Recomputed
from quota.explanation.refill import Gain, Origin, Refill
from quota.explanation.summary import summarize
from quota.records.decision import Decision
from quota.records.request import Mode
from quota.text import describe_sharing, format_duration, format_rate, format_time, plural, printable, quoted

_TOPICS_AT_EACH_END = 20
"""The number of topics printed from either end of a request, which may have thousands."""

_TEXT_INDENT, _NEIGHBOUR_INDENT = 14, 6

_MODES = {
    Mode.STRICT: "since the client knows the error: each topic is admitted if K >= 0 when its turn comes, "
    "otherwise rejected",
    Mode.PERMISSIVE: "since the client does not know the error: every topic is admitted and charged, then the client "
    "is throttled if K < 0",
}


class ExplanationLine(NamedTuple):
    """A line of an explanation, and the indentation of its continuation on a narrow terminal in characters."""

    text: str
    indent: int


class ExplanationRow(NamedTuple):
    """A line of an explanation: the name of its part, which is empty if the part continues, and the text."""

    part: str
    text: str


def explanation_lines(explanation: Explanation, now: int) -> Iterator[ExplanationLine]:
    """Yield the lines of an explanation at `now` (epoch ms): a sentence for the client, and the decision's steps."""
    decision = explanation.decision
    yield ExplanationLine(summarize(decision, now), 0)
    yield ExplanationLine(f"{decision.decision_id}: {decision.outcome.value}, {_throttling(decision)}", 2)
    for row in explanation_rows(explanation):
        yield ExplanationLine(f"  {row.part:11} {row.text}", _TEXT_INDENT)
    if explanation.before or explanation.after:
        yield ExplanationLine("Decisions of the same bucket before and after it:", 0)
        date, _, _ = format_time(decision.timestamp).partition("T")
        around = [(" ", neighbour) for neighbour in explanation.before]
        around += [(">", Neighbour.of(decision)), *((" ", neighbour) for neighbour in explanation.after)]
        for sign, neighbour in around:
            yield ExplanationLine(_neighbour_text(sign, neighbour, date), _NEIGHBOUR_INDENT)


def explanation_rows(explanation: Explanation) -> Iterator[ExplanationRow]:
    """Yield the lines on the decision itself, in the order in which it was made."""
    decision = explanation.decision
    mutations = sum(topic.partitions for topic in decision.topics)
    yield _line("operation", f"{decision.operation.value}, topics: {len(decision.topics)}, mutations: {mutations}")
    yield _line("by", f"user {quoted(decision.user)}, client-id {quoted(decision.client_id)}")
    yield _line("request", f"{printable(decision.request_id)}, at {format_time(decision.timestamp)}")
    if decision.quota is None:
        yield _line("quota", _why_unlimited(decision))
        yield from _answer_lines(explanation)
        return
    yield from _quota_lines(explanation)
    yield _line("mode", f"{decision.mode.value}, {_MODES[decision.mode]}")
    if decision.validate_only:
        yield _line("", "validate_only: never charged, never rejected")
    if decision.repeats:
        yield _line(
            "repeat",
            f"the same request was admitted by {decision.repeats.decision_id}; "
            f"topics not charged again (the first ones): {decision.repeats.topics}",
        )
    if explanation.refill:
        yield from _refill_lines(decision, explanation.refill)
    yield from _charge_lines(decision, explanation.charges)
    yield from _answer_lines(explanation)
    if explanation.recomputed:
        yield _line("recomputed", _comparison(decision, explanation.recomputed, explanation.refill))


def _number(value: float) -> str:
    """Format tokens or a rate without the digits of rounding errors."""
    return f"{value + 0.0:.10g}"


def _seconds(milliseconds: int) -> str:
    """Format a term of a formula, to the millisecond."""
    return f"{_number(milliseconds / 1000)} s"


def _line(part: str, text: str) -> ExplanationRow:
    return ExplanationRow(part, text)


def _throttling(decision: Decision) -> str:
    if not decision.throttle_time_ms:
        return "no wait"
    return f"wait {format_duration(decision.throttle_time_ms)}, until {format_time(decision.retry_at)}"


def _why_unlimited(decision: Decision) -> str:
    if decision.exempt:
        return "none: the user is exempt (quota.exempt_users), no bucket is charged"
    by = f"{decision.callback} returned no quota" if decision.callback else "no level had a quota"
    return f"none: {by} at that time; admitted, and no bucket is charged"


def _quota_lines(explanation: Explanation) -> Iterator[ExplanationRow]:
    decision, change = explanation.decision, explanation.set_quota
    whose = f", set for {decision.quota_entity}" if decision.quota_entity else ""
    callback = f", by {decision.callback}" if decision.callback else ""
    debt = "" if decision.max_debt_ms is None else f", no debt longer than {format_duration(decision.max_debt_ms)}"
    yield _line("quota", f"Q = {format_rate(decision.quota or 0)}{whose}{callback}")
    yield _line("", f"B = {_number(decision.burst or 0)} mutations at once{debt}")
    if change:
        who = f" by {printable(change.altered_by)}" if change.altered_by else ""
        made = f", made at {format_time(change.altered_at)}" if change.altered_at != change.since else ""
        why = f"  # {printable(change.comment)}" if change.comment else ""
        yield _line("", f"since {format_time(change.since)}{who}{made}{why}")
    elif decision.quota_entity:
        yield _line("", "unknown since when and by whom: the change is not in the table quota_changes")
    if decision.shadow:
        yield _line("", "in shadow mode: only reported, everything is admitted")
    yield _line("bucket", describe_sharing(dict(decision.tags.items())))


def _refill_lines(decision: Decision, refill: Refill) -> Iterator[ExplanationRow]:
    recorded = _number(decision.tokens_before or 0)
    match refill.origin:
        case Origin.RESET:
            yield _line(
                "K before", f"{recorded}: full, an operator reset the bucket at {format_time(refill.reset_at or 0)}"
            )
        case Origin.NEVER_CHARGED:
            yield _line("K before", f"{recorded}: no earlier decision charged the bucket, so it was full")
        case Origin.LAST_WRITE:
            yield _line("K before", f"{recorded}: the bucket was written last by {refill.written_by}")
            yield from (_line("", _refill_formula(gain)) for gain in refill.gains)


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
    name = "charges"
    for charge in charges[:_TOPICS_AT_EACH_END]:
        yield _line(name, _charge_text(charge))
        name = ""
    left_out = len(charges) - 2 * _TOPICS_AT_EACH_END
    if left_out > 0:
        yield _line("", f"... {plural(left_out, 'more topic')} (-o json prints all) ...")
    for charge in charges[max(_TOPICS_AT_EACH_END, len(charges) - _TOPICS_AT_EACH_END) :]:
        yield _line("", _charge_text(charge))
    yield _line("K after", _number(decision.tokens or 0))


def _charge_text(charge: Charge) -> str:
    before, after, cost = _number(charge.tokens_before), _number(charge.tokens), charge.partitions
    topic = f"{quoted(charge.name)} of {cost}:"
    if not charge.admitted:
        return f"{topic} rejected, since K = {before} < 0; K stays"
    if not charge.charged:
        return f"{topic} admitted, and not charged; K = {before} stays"
    if charge.tokens > charge.tokens_before - cost:
        return f"{topic} admitted, K = {before} - {cost}, but no less than the bound on debt = {after}"
    return f"{topic} admitted, K = {before} - {cost} = {after}"


def _answer_lines(explanation: Explanation) -> Iterator[ExplanationRow]:
    decision = explanation.decision
    verdict = decision.verdict
    bucket_ms, request_ms = verdict.controller_throttle_ms, decision.request_throttle_ms
    if decision.quota is not None:
        gains = explanation.refill.gains if explanation.refill else []
        yield _line("throttle", _throttle_formula(decision, bucket_ms, gains[-1].late_ms if gains else 0))
    if explanation.purgatory_ms:
        at_least = "at least " if verdict.throttle_time_ms <= request_ms else ""
        yield _line("", f"less {at_least}{_seconds(explanation.purgatory_ms)} that the request spent in purgatory")
    if request_ms:
        longer = "which is longer" if request_ms > bucket_ms - explanation.purgatory_ms else "which is not longer"
        yield _line("", f"the request quota's own throttle: {_seconds(request_ms)}, {longer}")
    if shadow := decision.shadow:
        wait = f"wait {format_duration(shadow.throttle_time_ms)}"
        rejected = f"topics rejected: {sum(map(bool, shadow.error_codes))}"
        yield _line("shadow", f"would have been {shadow.outcome.value}, {rejected}, {wait}")
    yield _line("answer", f"{decision.outcome.value}, {_throttling(decision)}")


def _throttle_formula(decision: Decision, bucket_ms: int, late_ms: int) -> str:
    tokens, rate = decision.tokens or 0, decision.quota or 0
    if bucket_ms:
        bound = ", the maximum" if bucket_ms == MAX_THROTTLE_MS else ""
        debt, late = f"{_number(-tokens)} / {_number(rate)} s", f" + {_seconds(late_ms)}" if late_ms else ""
        until = ", until the time of the bucket" if late_ms else ""
        return f"-K / Q = {debt}{late} = {_seconds(bucket_ms)}, rounded up{until}{bound}"
    if decision.validate_only:
        return "none: nothing was charged"
    if decision.mode is Mode.STRICT:
        return "none: no topic was rejected" + (", though the next one will be" if tokens < 0 else "")
    return "none: K is not below 0"


def _comparison(decision: Decision, again: Recomputed, refill: Refill | None) -> str:
    if not again.differs:
        return "the same, computed from the previous decision of the bucket" if refill and refill.gains else "the same"
    differences = []
    if "tokens_before" in again.differs:
        differences.append(_tokens_before_difference(decision, refill))
    rejected, recorded_rejected = sum(map(bool, again.error_codes)), sum(map(bool, decision.error_codes))
    texts = {
        "topics": f"topics rejected: {rejected}, recorded {recorded_rejected}",
        "tokens": f"K after {_number(again.tokens)}, recorded {_number(decision.tokens or 0)}",
        "controller_throttle_ms": f"throttle {_seconds(again.controller_throttle_ms)}, "
        f"recorded {_seconds(decision.verdict.controller_throttle_ms)}",
    }
    others = [text for name, text in texts.items() if name in again.differs]
    rest = f"from the recorded K before: {'; '.join(others)}" if others else "everything else is the same"
    return "; ".join([*differences, rest])


def _tokens_before_difference(decision: Decision, refill: Refill | None) -> str:
    recorded = _number(decision.tokens_before or 0)
    if refill is None or refill.tokens is None:
        return (
            f"K before {recorded} cannot be checked: the quota changed since the bucket was written, "
            "and the change is not in the table quota_changes"
        )
    difference = f"K before is computed as {_number(refill.tokens)}, recorded {recorded}"
    if refill.origin is Origin.NEVER_CHARGED:
        return f"{difference}: the table does not reach back to the decision that wrote the bucket last"
    return (
        f"{difference}: the table is incomplete (a decision is missing, the state was "
        "reset, or requests of several partitions were decided in another order)"
    )


def _neighbour_text(sign: str, neighbour: Neighbour, date: str) -> str:
    """Return a row of the decisions around the explained one, whose date is left out of their times."""
    wait = f", wait {format_duration(neighbour.throttle_time_ms)}" if neighbour.throttle_time_ms else ""
    mutations = plural(neighbour.mutations, "mutation") + (", validate_only" if neighbour.validate_only else "")
    time = format_time(neighbour.timestamp).removeprefix(f"{date}T")
    return (
        f"{sign} {time}  {neighbour.decision_id}  {neighbour.outcome}, {mutations}, "
        f"K {_number(neighbour.tokens_before or 0)} -> {_number(neighbour.tokens or 0)}{wait}"
    )
