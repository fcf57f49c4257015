"""What was observed, as it is printed and stored."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.evidence.gateway.conformance.comparison import Row
from tests.evidence.gateway.conformance.program import Program
from tests.evidence.gateway.conformance.sides import RATE
from tests.evidence.gateway.ground import WINDOW_NUM
from tests.evidence.machine import load, machine

_LONGEST = 150


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
        "differences": [_difference(row) for row in every if row.difference and not row.mismatch],
        "programs": {
            _key(program): {"version": program.version() or f"Kafka {kafka}", "observations": len(own)}
            for program, own in rows
        },
        "missing": dict(missing),
        "kafka": kafka,
        "observed": {_key(program): [_row(row) for row in _by_case(own)] for program, own in rows},
        "on": machine() | {"load": load()},
    }


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
        "seen": seen or (f"differs: {row.difference.name}" if row.difference else _short(row.direct.seen)),
        "broker_throttle_ms": row.direct and row.direct.throttle_ms,
        "gateway_throttle_ms": row.gateway and row.gateway.throttle_ms,
        "broker_end": row.direct_ended / 1000 if is_timed else None,
        "gateway_end": row.gateway_ended / 1000 if is_timed else None,
    }


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
