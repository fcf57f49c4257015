"""KIP-599's own experiment, without a quota, with one, and with Kafka's own client: `make experiment`."""

import argparse
import resource
import signal
import sys
from pathlib import Path

import msgspec
from confluent_kafka import KafkaException
from rich.console import Console

from quota.errors import BadInput, MutationQuotaError
from quota.kafka.clients import reason
from quota.settings import Settings, load_settings
from quota.settings.types import in_bytes
from tests.evidence.experiment.arm import LIMITED, Plan, StormQuota, Way, run_arm
from tests.evidence.experiment.figures import Room, quota_for, scale_factor, throughput
from tests.evidence.experiment.page import page
from tests.evidence.experiment.plot import draw
from tests.evidence.experiment.report import storm_table, tenant_tables
from tests.evidence.experiment.storm import PARTITIONS

TOPICS = 5000
"""Number of topics in the KIP's experiment."""

_OTHERS = 4000
"""Partitions of the tenants, the deployment and the warm-up."""

_BROKER_MEMORY = "1g"
_QUICK_TOPICS = 100
_OUT = Path("docs/evidence/experiment")


def main() -> None:
    """Run the program; an error is one line on standard error."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _run(_options())
    except MutationQuotaError as error:
        _end(str(error), error.exit_code)
    except KafkaException as error:
        _end(f"Kafka: {reason(error)}", 1)
    except OSError as error:
        _end(f"{error.filename or 'input or output'}: {error.strerror}", 1)
    except KeyboardInterrupt:
        _end("interrupted; nothing was written", 130)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="experiment", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tiny run of some minutes, to check that it works")
    parser.add_argument("--scale", type=int, metavar="N", help="divide the topics by N (default: as the machine needs)")
    parser.add_argument(
        "--quota", type=float, metavar="Q", help="quota, mutations/s (default: a quarter of the cluster's rate)"
    )
    parser.add_argument(
        "--burst", type=float, metavar="B", help="burst of the quota, mutations (default: by the settings)"
    )
    parser.add_argument(
        "--limit", type=float, default=60.0, metavar="S", help="seconds for each of both phases (default: 60)"
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for experiment.md, .svg and .json")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="a setting")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> None:
    console = Console(soft_wrap=True)
    settings = load_settings(options.set)
    plan = _plan(options, settings)
    if plan.embedded:
        settings = with_broker_memory(settings)
    out = options.out or (settings.storage.local_folder("experiment") if options.quick else _OUT)
    out.mkdir(parents=True, exist_ok=True)
    console.print(plan.sentence())
    without = run_arm(plan, settings, console, Way.FREE, None)
    quota = StormQuota(options.quota or quota_for(plan.mutations, without.creation), options.burst)
    ways = LIMITED if plan.embedded else (Way.ASKS,)
    arms = [without, *(run_arm(plan, settings, console, way, quota) for way in ways)]
    for table in (*tenant_tables(arms), storm_table(arms)):
        console.print(table.drawn())
    draw(arms[:2], quota.rate, out / "experiment.svg")
    (out / "experiment.json").write_bytes(msgspec.json.encode(throughput(without, PARTITIONS)) + b"\n")
    (out / "experiment.md").write_text(page(arms, plan, quota, settings))
    console.print("written: " + ", ".join(str(out / f"experiment.{kind}") for kind in ("md", "svg", "json")))


def _plan(options: argparse.Namespace, settings: Settings) -> Plan:
    """Return the plan, scaled down as far as an embedded broker needs on this machine.

    Raises:
        BadInput: An option is out of its range.
    """
    for name in ("scale", "quota", "burst", "limit"):
        value = getattr(options, name)
        if value is not None and not 0 < value < float("inf"):
            raise BadInput(f"--{name} {value}: expected a number above 0")
    embedded = "bootstrap_servers" not in settings.kafka.model_fields_set
    if options.quick:
        return quick_plan(embedded=embedded)
    if embedded:
        return embedded_plan(options.scale, options.limit)
    return _full_plan(options.scale or 1, options.limit, embedded=False)


def quick_plan(*, embedded: bool) -> Plan:
    """Return the plan of a tiny storm."""
    return Plan(embedded, TOPICS // _QUICK_TOPICS, _QUICK_TOPICS, 10.0, warm_up=3.0, baseline=3.0, least=3.0)


def embedded_plan(factor: int | None = None, limit: float = 60.0) -> Plan:
    """Return the plan of a storm for an embedded broker, scaled down as far as it needs on this machine."""
    return _full_plan(factor or scale_factor(TOPICS * PARTITIONS, _OTHERS, _room()), limit, embedded=True)


def with_broker_memory(settings: Settings) -> Settings:
    """Return settings with a heap for thousands of topics, unless they name another."""
    if "memory" in settings.broker.model_fields_set:
        return settings
    return settings.model_copy(update={"broker": settings.broker.model_copy(update={"memory": _BROKER_MEMORY})})


def _full_plan(factor: int, limit: float, *, embedded: bool) -> Plan:
    topics = max(1, TOPICS // factor)
    return Plan(embedded, factor, topics, limit, warm_up=10.0, baseline=10.0, least=10.0)


def _room() -> Room:
    """Return the resources that this machine has for a broker, next to Spark and this program."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # a JVM takes the hard limit
    maps = Path("/proc/sys/vm/max_map_count")
    memory = Path("/proc/meminfo")
    available = None
    if memory.exists():
        found = dict(line.split(":", 1) for line in memory.read_text().splitlines())
        available = int(found["MemAvailable"].split()[0]) * 1024 - in_bytes("3g")
    return Room(
        None if limit == resource.RLIM_INFINITY else limit,
        int(maps.read_text()) if maps.exists() else None,
        available,
    )


def _end(message: str, exit_code: int) -> None:
    print(f"experiment: {' '.join(message.split())}", file=sys.stderr)
    sys.stdout.flush()
    sys.exit(exit_code)


if __name__ == "__main__":
    main()
