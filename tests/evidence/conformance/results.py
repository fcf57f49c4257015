"""What the comparisons found, as it is printed and stored."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tests.evidence.conformance.broker.comparison import Row
from tests.evidence.conformance.broker.scenarios import Ask
from tests.evidence.conformance.bucket.comparison import ROUNDINGS_A_STEP, Tally
from tests.evidence.conformance.bucket.differences import Case
from tests.evidence.conformance.wire.comparison import STRICTER
from tests.evidence.conformance.wire.comparison import Tally as WireTally
from tests.support.wire.fuzz import Fuzzed

_WORDS = {"A": "admitted", "R": "rejected"}


def bucket_results(tally: Tally, cases: Sequence[Case]) -> dict[str, Any]:
    """Return the counts of the comparison of buckets, and the intended differences; a mismatch raises instead."""
    counts = asdict(tally) | {"exact_share": tally.exact / tally.tries, "mismatches": 0}
    counts["roundings_a_step"] = ROUNDINGS_A_STEP
    names = ("difference", "happens", "kafka", "project")
    return {"bucket": counts, "differences": [{name: getattr(case, name) for name in names} for case in cases]}


def wire_results(tally: WireTally, fuzzed: Fuzzed) -> dict[str, Any]:
    """Return the counts of the comparison of the codec, and of damaged frames."""
    counts = asdict(tally) | {"kinds": len(tally.kinds)}
    counts["stricter"] = [
        {"what": reason, "why": why, "messages": tally.stricter[reason]} for reason, why in STRICTER.items()
    ]
    return {"wire": counts | {"frames": asdict(fuzzed)}}


def broker_results(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the answers of a real broker and of the job; times of answers that throttle nothing are null."""
    return {"broker": [_row(row) for row in rows]}


def _row(row: Row) -> dict[str, Any]:
    title = row.scenario.title + (f" (difference: {row.scenario.difference})" if row.scenario.difference else "")
    earliest, latest = row.kafka_paid_off if row.kafka_throttle_ms else (None, None)
    return {
        "scenario": title,
        "request": _request(row.ask),
        "broker": _fates(row.kafka),
        "broker_throttle_ms": row.kafka_throttle_ms or None,
        "broker_paid_off_from": earliest,
        "broker_paid_off_to": latest,
        "here": _fates(row.project),
        "here_throttle_ms": row.project_throttle_ms or None,
        "here_paid_off": row.project_paid_off if row.project_throttle_ms else None,
    }


def _request(ask: Ask) -> str:
    text = ask.operation.value.lower().replace("_", " ")
    if ask.validate_only:
        text += ", validate only"
    if ask.new_rate is not None:
        text = f"quota {ask.new_rate:g}; {text}"
    return f"{text}: {' + '.join(str(topic.partitions) for topic in ask.topics)}"


def _fates(verdicts: str) -> str:
    """Return a text such as `2 admitted, 2 rejected`; without numbers for a single topic."""
    if len(verdicts) == 1:
        return _WORDS[verdicts]
    return ", ".join(f"{verdicts.count(fate)} {word}" for fate, word in _WORDS.items() if fate in verdicts)
