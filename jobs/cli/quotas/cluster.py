"""The quotas of a cluster whose brokers enforce them: `mutation-quota quotas push`, `pull` and `drift`."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.cli.options import Comment, ConfirmOptions, FileOptions, TargetOptions
from jobs.cli.output import OutputOptions, print_text, print_warnings
from jobs.cli.quotas.changes import (
    DIFFERENCES,
    change_log,
    planned_change,
    prepare_quota_topic,
    print_count,
    print_steps,
    read_log,
)
from jobs.installation import kafka_protocol
from quota.errors import BadInput, ClusterError, interrupts_saying
from quota.planning.cluster import (
    Note,
    RateDifference,
    Rates,
    Wanted,
    callback_note,
    cluster_warnings,
    differences,
    exemption_notes,
    has_names,
    is_rate,
    pull_steps,
    quota_notes,
    wanted_rates,
    window_note,
)
from quota.planning.quota_file import write_quota_file
from quota.records.quota_log import RATE_CONFIG, QuotaRecord
from quota.settings import Settings
from quota.text import plural
from schemas.documents.quotas import PulledQuotas, PushedQuotas, QuotaDrift

if TYPE_CHECKING:
    from quota.kafka.brokers.cluster_quotas import ClusterQuotas
    from quota.kafka.quotas.log import QuotaLog

_MAX_PRINTED = 20
"""The number of notes of one kind that are printed."""

Prune = Annotated[bool, typer.Option("--prune", help="Also remove quotas of the cluster that the log never had.")]


def push(
    prune: Prune = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep running: push changes when they take effect, and watch the cluster.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="With --follow: undo what others change on the cluster.")
    ] = False,
    *,
    confirmation: ConfirmOptions,
    output: OutputOptions,
    kafka: TargetOptions,
) -> None:
    """Copy quotas to a cluster that enforces them itself.

    Shows the changes as a diff and asks for confirmation. The cluster is kafka.target_servers, or the one with the
    quota log. Its other quotas (such as producer_byte_rate) stay. A quota that was removed from the log is removed; a
    quota that the log never had stays, unless --prune is given.

    Examples:
      mutation-quota quotas push --dry-run
      mutation-quota quotas push --yes --follow --repair
    """
    if repair and not follow:
        raise BadInput("--repair: only with --follow")
    if follow and (confirmation.dry_run or not output.for_people):
        raise BadInput("--follow runs until it is stopped: leave out --dry-run and --output")
    confirmation.check(output)
    settings = kafka.read()
    cluster = _target_quotas(settings)
    push_now = partial(
        _push_quotas, settings, cluster, prune=prune, follow=follow, confirmation=confirmation, output=output
    )
    if not follow:
        push_now()
        return
    from jobs.services.push import Repair, run_push

    run_push(settings, cluster, push_now, (Repair.ALL if prune else Repair.KNOWN) if repair else Repair.NONE)


def pull(
    apply: Annotated[
        bool, typer.Option("--apply", help="Write the quotas to the log instead of a file, after confirmation.")
    ] = False,
    comment: Comment = None,
    *,
    file: FileOptions,
    confirmation: ConfirmOptions,
    output: OutputOptions,
    kafka: TargetOptions,
) -> None:
    """Copy a cluster's own quotas to a file or the log.

    Writes a file for quotas apply. With --apply, the quotas in the log get the cluster's rates and keep the options
    that brokers do not have; a quota that the cluster does not have is removed, unless it is in shadow mode. Scheduled
    changes stay. With --apply, --output is the format of the changes.

    Examples:
      mutation-quota quotas pull --output-file quotas.yaml
      mutation-quota quotas pull --apply --dry-run
    """
    if apply and file.output_file is not None:
        raise BadInput("--apply writes to the log, --output-file to a file: give only one of them")
    if not apply and (confirmation.dry_run or confirmation.yes or comment is not None):
        raise BadInput("--dry-run, --yes and --comment: only with --apply")
    if apply:
        confirmation.check(output)
    else:
        file.check(output)
    settings = kafka.read()
    cluster = _target_quotas(settings)
    if apply:
        _pull_into_log(settings, cluster, comment, confirmation=confirmation, output=output)
        return
    rates = cluster.read()
    print_warnings(cluster_warnings(rates))
    named = (entity for entity in rates if has_names(entity) and is_rate(rates[entity]))
    entities = sorted(named, key=lambda entity: entity.key)
    file.write(write_quota_file(QuotaRecord(entity, rates[entity]) for entity in entities))
    count = len(entities)
    if not file.to_stdout:
        preview = f"mutation-quota quotas apply {file.output_file} --dry-run"
        output.print(
            PulledQuotas(applied=False, changes=[], file=str(file.output_file), quota_count=count),
            lambda: print_text(f"Wrote {file.output_file}: {plural(count, 'quota')}; preview it with: {preview}"),
        )


def drift(*, output: OutputOptions, kafka: TargetOptions) -> None:
    """Compare a cluster's own quotas with the log.

    Prints the differences as a diff from the log to the cluster, and exits with code 3 if there are any. quotas push
    makes the cluster like the log, quotas pull --apply the log like the cluster.

    Examples:
      mutation-quota quotas drift
      mutation-quota quotas drift -o json
    """
    settings = kafka.read()
    cluster = _target_quotas(settings)
    _, _, present, differing = _compare(settings, cluster)
    print_steps([rate.drift for rate in differing], output)
    where = f"of Kafka at {cluster.connection}"

    def summary() -> None:
        if differing and not present:
            print_text(f"Kafka at {cluster.connection} has no quotas; quotas push sets those of the log.")
        elif differing:
            differ = "differs" if len(differing) == 1 else "differ"
            print_text(f"{plural(len(differing), 'quota')} {where} {differ} from the log.")
        else:
            print_text(f"The quotas {where} are the same as in the log.")

    output.print(QuotaDrift(bool(differing), differing), summary, items="differences")
    if differing:
        raise typer.Exit(DIFFERENCES)


def _target_quotas(settings: Settings) -> "ClusterQuotas":
    """Return the quotas of the target cluster. The first access connects to it."""
    from quota.kafka.brokers.cluster_quotas import ClusterQuotas

    return ClusterQuotas(
        settings.target_connection, kafka_protocol(settings.broker.jars), settings.kafka.timeout_seconds
    )


def _push_quotas(
    settings: Settings,
    cluster: "ClusterQuotas",
    *,
    prune: bool,
    follow: bool,
    confirmation: ConfirmOptions,
    output: OutputOptions,
) -> Wanted:
    """Show the plan, ask, make the changes unless this is a dry run, and return the rates that the cluster has.

    Rates that the cluster rejects are an error, unless they are to be pushed again by the service that follows.
    """
    from quota.kafka.brokers.cluster_quotas import UnsetQuotas

    log, wanted, _, differing = _compare(settings, cluster)
    left = [] if prune else [rate for rate in differing if rate.kind == "only_there"]
    steps = [rate.step for rate in differing if prune or rate.kind != "only_there"]
    notes = list(_notes(settings, cluster, log, wanted))
    if output.for_people:
        _print_notes(notes)
        print_steps(steps, output)
        for rate in left:
            print_text(f"  {rate.entity}: {RATE_CONFIG}={rate.present} (only on the cluster; --prune removes it)")
    if steps and not confirmation.dry_run:
        confirmation.confirm(f"Make {plural(len(steps), 'change')} on Kafka at {cluster.connection}?")
        with interrupts_saying(lambda: f"any of {plural(len(steps), 'change')} may be made; see quotas drift"):
            try:
                cluster.push({step.record.entity: step.record.controller_mutation_rate for step in steps})
            except UnsetQuotas as error:
                if not follow:
                    raise
                print_warnings([str(error)])
                steps = [step for step in steps if step.record.entity not in error.rejected]
                wanted = {entity: rate for entity, rate in wanted.items() if entity not in error.rejected}
    document = PushedQuotas(
        applied=not confirmation.dry_run,
        changes=[planned_change(step) for step in steps],
        only_there=[QuotaRecord(rate.entity, rate.present) for rate in left],
        notes=notes,
    )
    output.print(document, lambda: print_count(steps, dry_run=confirmation.dry_run), items="changes")
    sys.stdout.flush()
    if steps and confirmation.dry_run:
        raise typer.Exit(DIFFERENCES)
    return wanted


def _pull_into_log(
    settings: Settings,
    cluster: "ClusterQuotas",
    comment: str | None,
    *,
    confirmation: ConfirmOptions,
    output: OutputOptions,
) -> None:
    if not confirmation.dry_run:
        prepare_quota_topic(settings)
    rates = cluster.read()
    log = read_log(settings)
    steps = list(pull_steps(rates, log.timeline, log.now))
    print_warnings(cluster_warnings(rates))
    reason = comment or f"pulled from Kafka at {cluster.connection}"
    change_log(settings, log, steps, None, reason, confirmation=confirmation, output=output)


def _compare(settings: Settings, cluster: "ClusterQuotas") -> tuple["QuotaLog", Wanted, Rates, list[RateDifference]]:
    """Return the log, its rates, the cluster's and how they differ; warn of the cluster's own that the log lacks."""
    log = read_log(settings)
    wanted, present = wanted_rates(log.timeline, log.now), cluster.read()
    print_warnings(cluster_warnings({entity: rate for entity, rate in present.items() if entity not in wanted}))
    return log, wanted, present, differences(wanted, present)


def _notes(settings: Settings, cluster: "ClusterQuotas", log: "QuotaLog", wanted: Wanted) -> Iterator[Note]:
    from quota.kafka.reading import read_window

    own = settings.quota.window
    try:
        brokers = read_window(cluster.connection, settings.kafka.timeout_seconds)
    except ClusterError as error:
        brokers = own
        yield Note("window", f"the brokers' window is unknown, and assumed to be the same as here: {error}")
    yield from window_note(own, brokers)
    yield from callback_note(log.quotas.callback(log.now))
    if settings.quota.shadow:
        yield Note("shadow", "nothing is enforced here (quota.shadow=true), but the brokers enforce what is pushed")
    yield from exemption_notes(settings.quota.exempt_users, wanted)
    yield from quota_notes(log.timeline, log.now, brokers)


def _print_notes(notes: Sequence[Note]) -> None:
    counts: Counter[str] = Counter()
    for note in notes:
        counts[note.kind] += 1
        if counts[note.kind] <= _MAX_PRINTED:
            print_warnings([str(note)])
    for kind, count in counts.items():
        if count > _MAX_PRINTED:
            print_warnings([f"and {count - _MAX_PRINTED} more notes of kind {kind} (-o json prints all)"])
