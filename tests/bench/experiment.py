"""KIP-599's own experiment, without a quota and with one: `make experiment`."""

import argparse
import os
import resource
import signal
import sys
from pathlib import Path

from confluent_kafka import KafkaException
from rich.console import Console

from quota.errors import BadInput, MutationQuotaError
from quota.kafka.client import reason
from quota.settings import Settings, load_settings
from tests.bench.arm import Plan, run_arm
from tests.bench.figures import Room, scale_factor
from tests.bench.plot import draw
from tests.bench.report import storm_table, tenant_table
from tests.bench.storm import PARTITIONS

TOPICS = 5000
"""The KIP's."""

_OTHER_PARTITIONS = 2500
_QUICK_TOPICS = 100
_BROKER_MEMORY = "1g"
_MEMORY_BESIDE_BYTES = 4 * 2**30


def main() -> None:
    """Run the program: an error is one line on standard error."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run(_options())
    except MutationQuotaError as error:
        _fail(str(error), error.exit_code)
    except KafkaException as error:
        _fail(f"Kafka: {reason(error)}", 1)
    except KeyboardInterrupt:
        _fail("interrupted", 130)


def run(options: argparse.Namespace) -> None:
    """Both arms, their tables, and where they are kept."""
    console = Console(soft_wrap=True)
    settings = load_settings(options.set)
    embedded = "bootstrap_servers" not in settings.kafka.model_fields_set
    if embedded and "memory" not in settings.broker.model_fields_set:
        settings = settings.model_copy(update={"broker": settings.broker.model_copy(update={"memory": _BROKER_MEMORY})})
    plan = plan_of(options, embedded=embedded)
    console.print(describe(plan, settings))
    arms = [run_arm(plan, settings, console, with_quota=with_quota) for with_quota in (False, True)]
    for table in (tenant_table(arms), storm_table(arms)):
        console.print(table.drawn())
