"""The comparison of a program's observations at the broker with those at the gateway.

The two sides take different times for a request, because the job decides in batches. Throttle times are therefore
compared by the time at which the debt is paid off, relative to the case's first request. Each side charged that request
between its sending and its response, and determined the throttle time between the sending and the response of the later
request. This gives a range for each side, and the ranges must meet. The end of a request is compared with a tolerance.
"""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.evidence.gateway.conformance.program import CONNECT, Difference, Observation, Program
from tests.evidence.gateway.conformance.sides import RATE
from tests.evidence.gateway.ground import WINDOW_NUM
from tests.evidence.machine import load, machine

_ROUNDING_MS = 2.0
"""The gateway rounds throttle times up, and the broker half up; the clocks are cut to ms."""
_EARLY_MS, _LATE_MS = 4000.0, 12_000.0
"""How much earlier than at the broker a request may end at the gateway, and how much later per request so far."""


_TOLD = re.compile(
    r"(?: - |: )?[\"']?(?:user|client-id) [^\"';]* may change [0-9.]+ partitions?/s and is [0-9.]+ over; "
    r"try again (?:now|in [0-9. a-z]+); decision [\w.-]+[\"']?"
)
"""The error message of a rejected topic at the gateway, with what a client puts around a message."""
_UNTOLD = "(?:(?: - |: )?(?:None|null|The throttling quota has been exceeded[.])|)"
"""What clients show where the broker sends none."""
TOLD = "the error message of a rejected topic, through the gateway"
"""The name of this difference, which is compared everywhere."""


@dataclass(frozen=True, slots=True)
class Row:
    """One request on both sides."""

    program: str
    case: str
    step: str
    direct: Observation | None
    gateway: Observation | None
    direct_ended: float
    gateway_ended: float
    """End of the request on each side, ms after the case's first request was sent."""
    difference: Difference | None
    """The listed difference that the request shows, if any."""
    mismatch: str
    """What differs without being listed; empty if nothing does."""


def compare(
    program: Program, direct: Sequence[Observation], gateway: Sequence[Observation], slow: float = 1.0
) -> Iterator[Row]:
    """Yield a row for each request; observations without a counterpart are mismatches.

    `slow` is a factor for the program's tolerances, for a busy machine.
    """
    theirs = {(observation.case, observation.step): observation for observation in direct}
    ours = {(observation.case, observation.step): observation for observation in gateway}
    for key in dict.fromkeys([*theirs, *ours]):
        one, other = theirs.get(key), ours.get(key)
        difference = program.differences.get(key)
        if one is None or other is None or len(theirs) != len(direct) or len(ours) != len(gateway):
            yield Row(
                program.name, *key, one, other, 0.0, 0.0, difference, "only one side has it, or a side has it twice"
            )
            continue
        first, first_other = _first(direct, key[0]), _first(gateway, key[0])
        number = [observation.step for observation in direct if observation.case == key[0]].index(key[1])
        ended, ended_other = (max(0.0, end) for end in (one.received - first.sent, other.received - first_other.sent))
        mismatch = _seen(one, other, difference)
        if difference is None and not mismatch:
            mismatch = _throttle(one, first, other, first_other) or _ended(
                ended, ended_other, slow * _EARLY_MS, slow * _LATE_MS * (number + 1)
            )
        if difference is None and one.seen != other.seen:
            difference = Difference(TOLD, one.seen, other.seen)
        yield Row(program.name, *key, one, other, ended, ended_other, difference, mismatch)


def _first(observations: Sequence[Observation], case: str) -> Observation:
    """Return a case's first observation that may be charged."""
    observed = [observation for observation in observations if observation.case == case]
    return min(observed, key=lambda observation: (observation.step == CONNECT, observation.sent))


def _seen(direct: Observation, gateway: Observation, difference: Difference | None) -> str:
    if difference is not None:
        wanted = difference.kafka, difference.here
        if difference.throttle and (not direct.throttle_ms or gateway.throttle_ms):
            return "only the broker should report a throttle time"
        if (direct.seen, gateway.seen) == wanted:
            return ""
        return f"the difference should be {wanted[0]!r} and {wanted[1]!r}"
    if not _same(direct.seen, gateway.seen):
        return "the outcomes differ"
    if not _same(direct.detail, gateway.detail):
        return f"the details differ: {_where(direct.detail, gateway.detail)}"
    return ""


def _same(direct: str, gateway: str) -> bool:
    """Return whether two texts are the same but for the messages that only the gateway sends."""
    if direct == gateway:
        return True
    return re.fullmatch(_UNTOLD.join(map(re.escape, _TOLD.split(gateway))), direct) is not None


def _where(one: str, other: str) -> str:
    """Return the parts of two texts around the place where they begin to differ."""
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    begin = max(0, at - 60)
    return f"…{one[begin : at + 60]}… and …{other[begin : at + 60]}…"


def _throttle(direct: Observation, first: Observation, gateway: Observation, first_gateway: Observation) -> str:
    if direct.throttle_ms is None or gateway.throttle_ms is None:
        return "" if direct.throttle_ms == gateway.throttle_ms else "only one side reports a throttle time"
    low, high = paid_off(direct, first)
    low_gateway, high_gateway = paid_off(gateway, first_gateway)
    if not direct.throttle_ms and not gateway.throttle_ms:
        return ""
    if max(low, low_gateway) > min(high, high_gateway) + _ROUNDING_MS:
        return (
            f"the debt is paid off {low:,.0f} to {high:,.0f} ms after the first request at the broker, "
            f"and {low_gateway:,.0f} to {high_gateway:,.0f} ms at the gateway"
        )
    return ""


def paid_off(throttle: Observation, first: Observation) -> tuple[float, float]:
    """Return the range of ms after a case's first request in which the debt is paid off, by the throttle time.

    Without a throttle time, the debt may have been paid off at any time before the response.
    """
    latest = throttle.received - first.sent + (throttle.throttle_ms or 0)
    if not throttle.throttle_ms:
        return 0.0, latest
    earliest = (
        throttle.throttle_ms if throttle is first else throttle.throttle_ms + max(0.0, throttle.sent - first.received)
    )
    return earliest, latest


def _ended(direct: float, gateway: float, early: float, late: float) -> str:
    if direct - early <= gateway <= direct + late:
        return ""
    return f"it ends {direct:,.0f} ms after the first request at the broker, and {gateway:,.0f} ms at the gateway"


_LONGEST = 250


def results(
    rows: Sequence[tuple[Program, Sequence[Row]]], missing: Mapping[str, str], decisions: int, kafka: str
) -> dict[str, Any]:
    """Return the programs' observations, why others were not run, the job's number of decisions, and versions."""
    every = [row for _, own in rows for row in own]
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "observations": len(every),
        "decisions": decisions,
        "rate": RATE,
        "window_num": WINDOW_NUM,
        "wrong": [_mismatch(row) for row in every if row.mismatch],
        "differences": [_difference(row) for row in _listed(every)],
        "programs": {
            _key(program): {"version": program.version() or f"Kafka {kafka}", "observations": len(own)}
            for program, own in rows
        },
        "missing": dict(missing),
        "kafka": kafka,
        "observed": {_key(program): [_row(row) for row in _by_case(own)] for program, own in rows},
        "on": machine() | {"load": load()},
    }


def _listed(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the rows with an intended difference, of those with messages of rejected topics one for each program."""
    programs = set()
    for row in rows:
        if row.difference and not row.mismatch:
            if row.difference.name != TOLD or row.program not in programs:
                yield row
            if row.difference.name == TOLD:
                programs.add(row.program)


def _by_case(rows: Sequence[Row]) -> list[Row]:
    """Return rows with those of a case together; a program may play several at once."""
    cases = [row.case for row in rows]
    return sorted(rows, key=lambda row: cases.index(row.case))


def _key(program: Program) -> str:
    """Return the key of a program, which the path of a field can contain."""
    return program.name.replace(".", "-")


def _mismatch(row: Row) -> str:
    both = (side and (_short(side.seen), side.throttle_ms) for side in (row.direct, row.gateway))
    return f"{row.program}: {row.case}: {row.step}: {row.mismatch}: {' / '.join(map(str, both))}"


def _difference(row: Row) -> dict[str, Any]:
    return {
        "difference": row.difference.name,
        "request": f"{row.program}: {row.case}: {row.step}",
        "broker": _short(row.direct.seen),
        "broker_throttle_ms": row.direct.throttle_ms or None,
        "gateway": _short(row.gateway.seen),
    }


def _row(row: Row) -> dict[str, Any]:
    seen = row.mismatch and f"**differs**: {row.mismatch}"
    is_timed = row.direct is not None and row.direct.received > 0
    return {
        "case": row.case,
        "request": row.step,
        "seen": seen or _seen_by_both(row),
        "broker_throttle_ms": row.direct and row.direct.throttle_ms,
        "gateway_throttle_ms": row.gateway and row.gateway.throttle_ms,
        "broker_end": row.direct_ended / 1000 if is_timed else None,
        "gateway_end": row.gateway_ended / 1000 if is_timed else None,
    }


def _seen_by_both(row: Row) -> str:
    if row.difference is None or row.difference.name == TOLD:
        return _short(row.gateway.seen)
    return f"differs: {row.difference.name}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
