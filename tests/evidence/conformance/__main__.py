"""Compares the project with Kafka's own classes: `make conformance`."""

import platform
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jobs.installation import jars_folder
from quota.settings import load_settings
from quota.wire.schemas import read_schemas
from tests.evidence.command import Notify, run
from tests.evidence.conformance.bucket.comparison import ROUNDINGS_A_STEP, MismatchError, Tally, compare
from tests.evidence.conformance.bucket.differences import Case, differences
from tests.evidence.conformance.bucket.oracle import CLASSES, kafka_oracle
from tests.evidence.conformance.bucket.sequences import sequences
from tests.evidence.conformance.wire.comparison import STRICTER, Comparison, kinds
from tests.evidence.conformance.wire.comparison import Tally as WireTally
from tests.evidence.conformance.wire.oracle import kafka_oracle as wire_oracle
from tests.support.wire.fuzz import Fuzzed, fuzz

PAGE = Path(__file__).with_name("page.md.in")

_EARLY = 100
"""At most one sequence in this many may end early; otherwise the omitted steps would matter."""


@dataclass(frozen=True, slots=True)
class Size:
    """The size of the comparisons."""

    sequences: int
    """Sequences of the bucket."""
    messages: int
    """Messages of each comparison of the codec."""
    frames: int
    """Damaged frames."""


FULL = Size(sequences=8000, messages=60_000, frames=100_000)
SMOKE = Size(sequences=60, messages=640, frames=1000)


def _play(options: Namespace, folder: Path, notify: Notify) -> dict[str, Any]:
    size = SMOKE if options.smoke else FULL
    jars = jars_folder(load_settings([f"storage.root={folder}"], environment={}).broker.jars)
    notify("the codec, and Kafka's generated classes")
    results = compare_codec(jars, size, options.seed)
    notify("the bucket, and Kafka's own")
    return results | compare_buckets(jars, size, options.seed)


def compare_codec(jars: Path, size: Size, seed: int) -> dict[str, Any]:
    """Compare the codec with Kafka's generated classes, and read damaged frames."""
    with wire_oracle(jars) as oracle:
        comparison = Comparison(oracle, kinds(read_schemas(jars)), seed)
        comparison.compare_defaults()
        comparison.compare_written(size.messages)
        comparison.compare_made(size.messages)
        comparison.compare_rewritten(size.messages)
        comparison.compare_broken(size.messages)
    return wire_results(comparison.tally, fuzz(jars, seed, size.frames))


def compare_buckets(jars: Path, size: Size, seed: int) -> dict[str, Any]:
    """Compare the bucket with Kafka's own classes."""
    with kafka_oracle(jars) as oracle:
        tally = compare(oracle, sequences(seed, size.sequences))
        cases = differences(oracle)
    if tally.ended_early * _EARLY > max(tally.sequences, _EARLY):
        raise MismatchError(f"{tally.ended_early} of {tally.sequences} sequences ended early")
    about = {"seed": seed, "kafka": oracle.version, "classes": CLASSES, "python": platform.python_version()}
    return about | bucket_results(tally, cases)


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


if __name__ == "__main__":
    run("conformance", _play, PAGE, seed=1)
