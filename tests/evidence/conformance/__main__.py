"""Compares the project with Kafka's own classes and with a real broker: `make conformance`."""

import argparse
import sys
import tempfile
from pathlib import Path

from jobs.sandbox.broker import embedded_broker, with_plaintext_cluster
from jobs.spark.installation import jars_folder
from jobs.spark.session import start_session, stop_session
from quota.errors import MutationQuotaError
from quota.settings import Settings, load_settings
from tests.evidence.conformance.broker.admin import JavaAdmin
from tests.evidence.conformance.broker.comparison import Row, play_all
from tests.evidence.conformance.broker.job import deciding_job
from tests.evidence.conformance.broker.scenarios import QUICK, SCENARIOS
from tests.evidence.conformance.bucket.comparison import MismatchError, compare
from tests.evidence.conformance.bucket.differences import differences
from tests.evidence.conformance.bucket.oracle import kafka_oracle
from tests.evidence.conformance.bucket.sequences import sequences
from tests.evidence.conformance.page import Result, difference_table, page, system_table, tally_table
from tests.evidence.pages import terminal, write_page
from tests.support.deployment import make_deployment

_SEQUENCES, _QUICK_SEQUENCES = 8000, 300
_COLUMNS = 180
_EARLY = 100
"""At most one sequence in this many may end early; otherwise the omitted steps would matter."""


def main() -> None:
    """Run the program; a mismatch is printed to standard error."""
    options = _options()
    try:
        _run(options)
    except MismatchError as mismatch:
        sys.exit(f"conformance: seed {options.seed}: {mismatch}")
    except MutationQuotaError as error:
        sys.exit(f"conformance: {error}")
    except KeyboardInterrupt:
        sys.exit("conformance: interrupted; nothing was written")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.conformance", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under a minute, without the page")
    parser.add_argument("--sequences", type=int, metavar="N", help=f"of the bucket (default: {_SEQUENCES})")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the sequences (default: 1)")
    parser.add_argument("--out", type=Path, default=Path("docs/evidence"), metavar="FOLDER", help="for conformance.md")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> None:
    console = terminal(_COLUMNS)
    count = options.sequences or (_QUICK_SEQUENCES if options.quick else _SEQUENCES)
    with tempfile.TemporaryDirectory(prefix="mutation-quota-") as folder:
        settings = load_settings([f"storage.root={folder}", "spark.master=local[2]"], environment={})
        console.print(f"{count} sequences, seed {options.seed}, through Kafka's bucket and the project's")
        with kafka_oracle(jars_folder(settings.broker.jars)) as oracle:
            tally = compare(oracle, sequences(options.seed, count))
            cases = differences(oracle)
        if tally.ended_early * _EARLY > tally.sequences:
            raise MismatchError(f"{tally.ended_early} of {tally.sequences} sequences ended early")
        console.print(tally_table(tally).drawn())
        console.print(difference_table(cases).drawn())
        console.print("the same requests to a broker, and to the job on it")
        rows, java_admin = _compare_with_broker(settings, Path(folder), quick=options.quick)
        console.print(system_table(rows).drawn())
    if not options.quick:
        result = Result(options.seed, tally, cases, rows, oracle.version, java_admin)
        write_page(options.out / "conformance.md", page(result), console)
    console.print("no mismatch", style="bold green")


def _compare_with_broker(settings: Settings, folder: Path, *, quick: bool) -> tuple[list[Row], str]:
    """Return the rows of the scenarios, and the version of Kafka's admin client."""
    with embedded_broker(settings, port=0) as broker:
        spark = start_session(settings, "conformance", folder / "spark.log")
        try:
            with deciding_job(
                spark, make_deployment(with_plaintext_cluster(settings, broker.address), "conformance", folder)
            ) as job:
                java = JavaAdmin(spark, broker.address)
                rows = list(play_all(QUICK if quick else SCENARIOS, java, broker.address, job))
            return rows, java.version
        finally:
            stop_session(spark)


if __name__ == "__main__":
    main()
