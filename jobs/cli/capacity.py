"""`mutation-quota capacity`: measures the rate of mutations that the controller of a test cluster sustains."""

import secrets
from typing import Annotated

import typer

from jobs.cli.options import ConfirmOptions, TargetOptions
from jobs.cli.output import OutputOptions, print_text
from quota.text import plural

_PER_TOPIC = 10


def capacity(
    partitions: Annotated[
        int, typer.Option(min=1, metavar="N", help=f"Partitions to create and delete, in topics of {_PER_TOPIC}.")
    ],
    *,
    confirmation: ConfirmOptions,
    output: OutputOptions,
    kafka: TargetOptions,
) -> None:
    """Measure the capacity of a test cluster's controller.

    Creates topics, waits until the leader of each partition responds, and deletes them. The lower of the two rates is
    the --capacity of recommend. Choose N so that it takes a minute or more. Other clients of the cluster wait
    meanwhile. The user must have no quota, or the quota is measured. Ctrl-C also deletes the topics; after a kill,
    delete the topics mutation-quota-capacity-* yourself.

    Examples:
      mutation-quota capacity --partitions 10000 --bootstrap-server test-kafka:9092
      mutation-quota capacity --partitions 1000 --yes --output json
    """
    confirmation.check(output)
    settings = kafka.read()
    from jobs.progress import progress
    from jobs.signals import stop_signals
    from quota.kafka.topics.capacity import measure_capacity
    from quota.kafka.topics.preparation import replicated
    from quota.kafka.topics.specs import TopicSpec
    from quota.kafka.topics.topic_admin import TopicAdmin

    admin = TopicAdmin(settings.target_connection, settings.kafka.timeout_seconds)
    brokers, prefix = admin.layout().size, f"mutation-quota-capacity-{secrets.token_hex(4)}"
    specs = [
        replicated(TopicSpec(f"{prefix}-{number}", min(_PER_TOPIC, partitions - first), {}), brokers)
        for number, first in enumerate(range(0, partitions, _PER_TOPIC))
    ]
    change = f"create and delete {plural(partitions, 'partition')} in topics {prefix}-* on {admin.connection}"
    if confirmation.dry_run:
        print_text(f"Would {change}, a cluster of {plural(brokers, 'broker')}.")
        return
    confirmation.confirm(f"About to {change}. Continue?")
    with stop_signals() as stop, progress("creating topics") as tell:
        measured = measure_capacity(admin, specs, stop, tell)
    rates = f"created at {measured.creations_per_second:,}/s and deleted at {measured.deletions_per_second:,}/s"
    advice = f"Give the lower rate to recommend: --capacity {measured.capacity}"
    output.print(measured, lambda: print_text(f"{plural(partitions, 'partition')}: {rates}. {advice}"))
