"""What the comparisons found, as it is printed and stored."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tests.evidence.conformance.bucket.comparison import ROUNDINGS_A_STEP, Tally
from tests.evidence.conformance.bucket.differences import Case
from tests.evidence.conformance.wire.comparison import STRICTER
from tests.evidence.conformance.wire.comparison import Tally as WireTally
from tests.support.wire.fuzz import Fuzzed


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
