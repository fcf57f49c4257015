"""Observes a storm, sizes quotas by the request log, and runs the storm again with these quotas: `make observed`."""

import argparse
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from confluent_kafka import KafkaException
from rich.console import Console

from quota.errors import MutationQuotaError
from quota.kafka.clients import reason
from quota.settings import Settings, load_settings
from tests.evidence.experiment.__main__ import embedded_plan, quick_plan, with_broker_memory
from tests.evidence.experiment.arm import STORM_USER
from tests.evidence.experiment.figures import Arm, throughput
from tests.evidence.experiment.plot import draw
from tests.evidence.experiment.report import storm_table, tenant_tables
from tests.evidence.experiment.storm import PARTITIONS
from tests.evidence.observed.arms import Side, run_observed
from tests.evidence.observed.cost import LogCost, measure_cost
from tests.evidence.observed.page import Observed, Results, page
from tests.evidence.observed.place import Place, place

RESERVE = 0.75
"""Share of the measured throughput that quotas leave free: as in `make experiment`, they get a quarter."""

_OUT = Path("docs/evidence/experiment")

WITHOUT, PUSHED = "without a quota", "quotas pushed to the broker"


def main() -> None:
    """Run the program; an error is one line on standard error."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parser = argparse.ArgumentParser(prog="observed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tiny run of some minutes, to check that it works")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for observed.md and .svg")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="a setting")
    options = parser.parse_args()
    try:
        _run(options)
    except MutationQuotaError as error:
        sys.exit(f"observed: {' '.join(str(error).split())}")
    except KafkaException as error:
        sys.exit(f"observed: Kafka: {reason(error)}")
    except KeyboardInterrupt:
        sys.exit("observed: interrupted; nothing was written")


def _run(options: argparse.Namespace) -> None:
    console = Console(soft_wrap=True)
    settings = with_broker_memory(load_settings(options.set))
    plan = quick_plan(embedded=True) if options.quick else embedded_plan()
    out = options.out or (settings.storage.local_folder("observed") if options.quick else _OUT)
    out.mkdir(parents=True, exist_ok=True)
    console.print(plan.sentence())
    with TemporaryDirectory(prefix="mutation-quota-") as name:
        folder = Path(name)
        cost = _cost(settings, console, folder / "cost", rounds=1 if options.quick else 3)
        without, there = run_observed(plan, settings, console, Side(WITHOUT, folder / "without"))
        observed = _observe(there, without)
        quotas = there.folder / "quotas.yaml"
        pushed, held = run_observed(plan, settings, console, Side(PUSHED, folder / "pushed", quotas))
        compared = _compare(held, quotas)
        arms = [without, pushed]
        for table in (*tenant_tables(arms), storm_table(arms)):
            console.print(table.drawn())
        draw(arms, observed.quota, out / "observed.svg")
        results = Results(plan, arms, observed, compared, cost, quotas.read_text(), settings)
        (out / "observed.md").write_text(page(results))
    console.print(f"written: {out}/observed.md, .svg")


def _cost(settings: Settings, console: Console, folder: Path, rounds: int) -> LogCost:
    console.print("the cost of the request log", style="bold")
    with place(settings, folder) as (there, _):
        return measure_cost(there, rounds, 10.0, lambda line: console.print(f"  {line}"))


def _observe(there: Place, arm: Arm) -> Observed:
    """Import the log, and size quotas by it and by the measured throughput of the cluster."""
    summary = there.json_of("observe", "import", *there.logs, "--output-file", "requests.jsonl")
    (there.folder / "experiment.json").write_bytes(msgspec.json.encode(throughput(arm, PARTITIONS)))
    advice = there.json_of(
        "recommend",
        *("--requests", "requests.jsonl", "--experiment", "experiment.json", "--reserve", str(RESERVE)),
        *("--by", "client", "--output-file", "quotas.yaml"),
    )
    there.command("report", "--requests", "requests.jsonl", "--force", "--output-file", "report.html")
    rates = {each["entity"].get("client-id"): each["controller_mutation_rate"] for each in advice["quotas"]}
    quota = rates.get(STORM_USER) or rates[None]  # a tenant that gets no more than the default has no separate quota
    return Observed(summary, quota, sum(Path(each).stat().st_size for each in there.logs))


def _compare(there: Place, quotas: Path) -> dict:
    """Import the log of the broker that enforces the quotas, and compare its answers with our decisions."""
    there.command("observe", "import", *there.logs, "--output-file", "requests.jsonl")
    return there.json_of("observe", "compare", "requests.jsonl", "--quotas", str(quotas))


if __name__ == "__main__":
    main()
