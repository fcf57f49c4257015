"""Quotas between the log and a cluster whose brokers enforce them: pushed, taken over, and compared."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jobs.cli.control.plans import confirm, print_outcome, print_plan, write_steps
from jobs.cli.control.quota_log import prepare_quota_topic
from jobs.cli.control.quota_text import plan_json
from jobs.cli.options import print_json
from jobs.spark.installation import clients_jar
from quota.errors import ClusterError
from quota.kafka.brokers.client_quotas import ClusterQuotas
from quota.kafka.brokers.window import read_window
from quota.kafka.quota_log import QuotaLog, read_log
from quota.records.quota_log import RATE_CONFIG, QuotaRecord
from quota.settings import Settings
from quota.text import format_time
from quota.timeline.cluster_limits import Note, callback_note, exemption_notes, quota_notes, window_note
from quota.timeline.cluster_plan import Rates, Wanted, differences, is_rate, pull_steps, wanted_rates
from quota.timeline.quota_file import write_quota_file
from quota.wire.protocol import Protocol

_MAX_TOLD = 20
"""Notes of one kind that are printed one by one."""


@dataclass(frozen=True, slots=True)
class PushOptions:
    """The options of a push."""

    dry_run: bool
    yes: bool
    prune: bool
    as_json: bool


def target_quotas(settings: Settings) -> ClusterQuotas:
    """Return the quotas of the target cluster, which is connected to when they are asked for.

    Raises:
        BadInput: there is no jar with Kafka's protocol.
    """
    protocol = Protocol.of_jar(clients_jar(settings.gateway.kafka_clients, settings.broker.jars))
    return ClusterQuotas(settings.target_connection, protocol, settings.kafka.timeout_seconds)


def push_quotas(settings: Settings, cluster: ClusterQuotas, options: PushOptions) -> Wanted:
    """Show the plan, and do it unless it is only to be shown.

    Returns:
        The rates that the cluster should have.

    Raises:
        ClusterError: a cluster cannot be reached, or refuses a change.
        MutationQuotaError: the change is not confirmed.
    """
    log = read_log(settings)
    wanted = wanted_rates(log.timeline, log.now)
    found = differences(wanted, cluster.read())
    left = [] if options.prune else [each for each in found if each.kind == "only_there"]
    steps = [each.step for each in found if options.prune or each.kind != "only_there"]
    notes = list(_notes(settings, cluster, log, wanted))
    if not options.as_json:
        _print_notes(notes)
        print_plan(steps, as_json=False)
        for each in left:
            print(f"  {each.entity}: {RATE_CONFIG}={each.present} (only on the cluster; --prune removes it)")
    if steps and not options.dry_run:
        confirm(f"Make these {len(steps)} changes on Kafka at {cluster.connection}?", yes=options.yes)
        cluster.push({step.record.entity: step.record.controller_mutation_rate for step in steps})
    more = {
        "only_there": [{"entity": each.entity, RATE_CONFIG: each.present} for each in left],
        "notes": [{"kind": each.kind, "entity": each.entity, "message": each.message} for each in notes],
    }
    print_outcome(steps, dry_run=options.dry_run, as_json=options.as_json, more=more)
    sys.stdout.flush()
    return wanted


def quota_file(cluster: ClusterQuotas) -> str:
    """Return the file for `quotas apply` with the quotas of a cluster.

    Raises:
        ClusterError: the cluster cannot be reached, or does not let this principal.
    """
    rates = cluster.read()
    _warn_of_no_rates(rates)
    entities = sorted((entity for entity in rates if is_rate(rates[entity])), key=lambda entity: entity.key)
    return write_quota_file(QuotaRecord(entity, rates[entity]) for entity in entities)


def find_drift(settings: Settings, cluster: ClusterQuotas, *, as_json: bool) -> bool:
    """Print what is otherwise on a cluster than in the log, and return whether anything is.

    Raises:
        ClusterError: a cluster cannot be reached, or does not let this principal.
    """
    log = read_log(settings)
    found = differences(wanted_rates(log.timeline, log.now), cluster.read())
    if as_json:
        told = [plan_json(each.drift) | {"difference": each.kind} for each in found]
        print_json({"differs": bool(found), "differences": told})
        return bool(found)
    print_plan([each.drift for each in found], as_json=False)
    if found:
        print(f"{len(found)} quotas of Kafka at {cluster.connection} are not as the log has them.")
    else:
        print(f"The quotas of Kafka at {cluster.connection} are as the log has them.")
    return bool(found)


def pull_into_log(
    settings: Settings, cluster: ClusterQuotas, comment: str | None, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Show the plan by which the log takes over a cluster's quotas, and do it unless it is only to be shown.

    Raises:
        ClusterError: a cluster cannot be reached, or does not let this principal.
        MutationQuotaError: the change is not confirmed.
    """
    if not dry_run:
        prepare_quota_topic(settings)
    rates = cluster.read()
    log = read_log(settings)
    steps = pull_steps(rates, log.timeline, log.now)
    _warn_of_no_rates(rates)
    changed = {step.record.entity for step in steps}
    for each in log.timeline.scheduled(log.now):
        if each.entity in changed:
            print(f"warning: {each.entity}: the change of {format_time(each.moment)} stays scheduled", file=sys.stderr)
    print_plan(steps, as_json=as_json)
    if steps and not dry_run:
        confirm(f"Make these {len(steps)} changes in the quota log?", yes=yes)
        write_steps(settings, steps, None, comment or f"pulled from Kafka at {cluster.connection}")
    print_outcome(steps, dry_run=dry_run, as_json=as_json)


def _warn_of_no_rates(rates: Rates) -> None:
    for entity in sorted(rates, key=lambda each: each.key):
        if not is_rate(rates[entity]):
            print(
                f"warning: {entity}: {RATE_CONFIG}={rates[entity]} admits everything there, and is no quota here: "
                "left out",
                file=sys.stderr,
            )


def _notes(settings: Settings, cluster: ClusterQuotas, log: QuotaLog, wanted: Wanted) -> Iterator[Note]:
    """Yield what will be otherwise on the cluster than here."""
    own = settings.quota.window
    try:
        brokers = read_window(cluster)
    except ClusterError as error:
        brokers = own
        yield Note("window", f"the brokers' window is not known, and taken to be as here: {error}")
    yield from window_note(own, brokers)
    yield from callback_note(log.quotas.callback(log.now))
    if settings.quota.shadow:
        yield Note("shadow", "nothing is enforced here (quota.shadow=true), and the brokers enforce what is pushed")
    yield from exemption_notes(settings.quota.exempt_users, wanted)
    yield from quota_notes(log.timeline, log.now, brokers)


def _print_notes(notes: Sequence[Note]) -> None:
    counts: Counter[str] = Counter()
    for note in notes:
        counts[note.kind] += 1
        if counts[note.kind] <= _MAX_TOLD:
            print(f"warning: {note}", file=sys.stderr)
    for kind, count in counts.items():
        if count > _MAX_TOLD:
            print(f"warning: and {count - _MAX_TOLD} more of {kind} (--json has all)", file=sys.stderr)
