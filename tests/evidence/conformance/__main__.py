"""The project beside Kafka: its own classes, and a real broker. `make conformance`."""

import argparse
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from jobs.sandbox.broker import at, embedded_broker
from jobs.spark.installation import jars_folder
from jobs.spark.session import end_session, spark_session
from quota.errors import MutationQuotaError
from quota.settings.loading import load_settings
from quota.settings.model import Settings
from tests.evidence.conformance.broker_admin import JavaAdmin
from tests.evidence.conformance.comparison import MismatchError, compare
from tests.evidence.conformance.deciding_job import deciding_job
from tests.evidence.conformance.differences import differences
from tests.evidence.conformance.oracle import kafka_oracle
from tests.evidence.conformance.page import Result, page
from tests.evidence.conformance.scenarios import QUICK, SCENARIOS
from tests.evidence.conformance.sequences import sequences
from tests.evidence.conformance.system import Row, play_all
from tests.evidence.conformance.tables import difference_table, system_table, tally_table
from tests.support.deployments import deployed

_SEQUENCES, _QUICK_SEQUENCES = 8000, 300
_COLUMNS = 180
_EARLY = 100
"""At most one sequence of so many may end early: more, and what is left out matters."""


def main() -> None:
    """Run the program: a mismatch is told on standard error."""
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
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under a minute, without the page")
    parser.add_argument("--sequences", type=int, metavar="N", help=f"of the bucket; {_SEQUENCES}")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the sequences; 1")
    parser.add_argument("--out", type=Path, default=Path("docs"), metavar="FOLDER", help="for conformance.md; docs")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> None:
    console = Console(soft_wrap=True, width=None if sys.stdout.isatty() else _COLUMNS)
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
        rows, java_admin = _beside_a_broker(settings, Path(folder), quick=options.quick)
        console.print(system_table(rows).drawn())
    if not options.quick:
        result = Result(options.seed, tally, cases, rows, oracle.version, java_admin)
        (options.out / "conformance.md").write_text(page(result))
        console.print(f"written: {options.out / 'conformance.md'}")
    console.print("no mismatch", style="bold green")


def _beside_a_broker(settings: Settings, folder: Path, *, quick: bool) -> tuple[list[Row], str]:
    """The scenarios' rows, and the version of Kafka's admin client."""
    with embedded_broker(settings, port=0) as broker:
        spark = spark_session(settings, "conformance", folder / "spark.log")
        try:
            with deciding_job(spark, deployed(at(settings, broker.address), "conformance", folder)) as job:
                java = JavaAdmin(spark, broker.address)
                rows = list(play_all(QUICK if quick else SCENARIOS, java, broker.address, job))
            return rows, java.version
        finally:
            end_session(spark)


if __name__ == "__main__":
    main()
