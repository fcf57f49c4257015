"""Compares the codec with Kafka's classes, and fuzzes it: `python -m tests.evidence.conformance.wire`."""

import argparse
import sys
from pathlib import Path

from jobs.spark.installation import jars_folder
from quota.errors import MutationQuotaError
from quota.settings import load_settings
from quota.wire.schemas import read_schemas
from tests.evidence.conformance.bucket.comparison import MismatchError
from tests.evidence.conformance.wire.comparison import STRICTER, Comparison, Tally, kinds
from tests.evidence.conformance.wire.oracle import kafka_oracle
from tests.support.wire.fuzz import Fuzzed, fuzz


def main() -> None:
    """Run the program; a mismatch is printed to standard error."""
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.conformance.wire", description=__doc__)
    parser.add_argument("--messages", type=int, default=60_000, metavar="N", help="of each comparison (default: 60000)")
    parser.add_argument("--frames", type=int, default=100_000, metavar="N", help="broken frames (default: 100000)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of all random data (default: 1)")
    options = parser.parse_args()
    jars = jars_folder(load_settings([], environment={}).broker.jars)
    try:
        _print_tally(compare(jars, options.seed, options.messages))
        _print_fuzzed(fuzz(jars, options.seed, options.frames))
    except MismatchError as mismatch:
        sys.exit(f"conformance: seed {options.seed}: {mismatch}")
    except MutationQuotaError as error:
        sys.exit(f"conformance: {error}")


def compare(jars: Path, seed: int, count: int) -> Tally:
    """Make each comparison with `count` messages.

    Raises:
        MismatchError: The codec and Kafka disagree.
    """
    with kafka_oracle(jars) as oracle:
        comparison = Comparison(oracle, kinds(read_schemas(jars)), seed)
        comparison.compare_defaults()
        comparison.compare_written(count)
        comparison.compare_made(count)
        comparison.compare_rewritten(count)
        comparison.compare_broken(count)
    return comparison.tally


def _print_tally(tally: Tally) -> None:
    print(f"{len(tally.kinds)} messages and versions")
    print(f"{tally.written} written by the codec, {tally.made} by Kafka: all the same")
    print(f"{tally.rewritten} written in another version or as defaults, {tally.not_carried} refused: by both alike")
    print(f"{tally.both_read} broken ones read as the same by both, {tally.both_refused} refused by both")
    for reason, why in STRICTER.items():
        print(f"{tally.stricter[reason]} refused by the codec alone, {reason!r}: {why}")


def _print_fuzzed(fuzzed: Fuzzed) -> None:
    print(
        f"{fuzzed.frames} broken frames: {fuzzed.read} read, {fuzzed.refused} refused, "
        f"{fuzzed.header_alone} with a header only"
    )
    print(f"the slowest took {fuzzed.slowest_us:.0f} us of CPU, memory grew by {fuzzed.grown_kb} kB")


if __name__ == "__main__":
    main()
