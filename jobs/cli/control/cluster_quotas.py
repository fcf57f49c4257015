"""Quotas of a cluster whose brokers enforce them themselves: `mutation-quota quotas push`, `pull` and `drift`."""

from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.control.plans import DryRun, Yes, check_confirmable
from jobs.cli.options import (
    BootstrapServer,
    Comment,
    ConfigFile,
    Json,
    Overrides,
    check_new_file,
    read_settings,
    write_new_file,
)
from quota.errors import BadInput

DIFFERS = 3
"""Exit code of `drift` where something differs."""

Prune = Annotated[bool, typer.Option("--prune", help="Also remove quotas there that the log never had.")]


def push(
    context: typer.Context,
    dry_run: DryRun = False,
    yes: Yes = False,
    prune: Prune = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on: push changes of the log when they hold, and watch the cluster.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="With --follow: undo what others change on the cluster.")
    ] = False,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Set the quotas of the log on the cluster itself, whose brokers then enforce them: a plan as a diff, then do it.

    The cluster is kafka.target_servers, or that of the log. Its other quotas (producer_byte_rate and its like) stay. A
    quota that the log has removed is removed; one that the log never had stays without --prune.
    """
    if repair and not follow:
        raise BadInput("--repair: only with --follow, which watches what others change")
    if follow and (dry_run or as_json):
        raise BadInput("--follow has no end: leave --dry-run and --json out")
    check_confirmable(dry_run=dry_run, yes=yes, as_json=as_json)
    settings = read_settings(context, overrides, config, server)
    from jobs.cli.control.cluster_changes import PushOptions, push_quotas, target_quotas

    cluster = target_quotas(settings)
    options = PushOptions(dry_run=dry_run, yes=yes, prune=prune, as_json=as_json)
    if not follow:
        push_quotas(settings, cluster, options)
        return
    from jobs.services.push import Repair, run_push

    undone = (Repair.ALL if prune else Repair.KNOWN) if repair else Repair.NONE
    run_push(settings, cluster, lambda: push_quotas(settings, cluster, options), undone)


def pull(
    context: typer.Context,
    output: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write them there, for quotas apply; a new file, - for stdout.")
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Write them to the log: the plan as a diff, then do it.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    comment: Comment = None,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Take over the quotas that a cluster has: as a file for quotas apply, or into the log.

    With --apply the quotas of the log get the cluster's rates, and keep the options that no broker has; a quota that
    the cluster does not have is removed, unless it is in shadow. Scheduled changes stay.
    """
    if apply and output is not None:
        raise BadInput("--apply writes to the log, and --output a file: give one of them")
    if not apply and (dry_run or yes or comment is not None or as_json):
        raise BadInput("--dry-run, --yes, --comment and --json: only with --apply")
    if apply:
        check_confirmable(dry_run=dry_run, yes=yes, as_json=as_json)
    file = None if output in {None, "-"} else Path(str(output))
    check_new_file("--output", file)
    settings = read_settings(context, overrides, config, server)
    from jobs.cli.control.cluster_changes import pull_into_log, quota_file, target_quotas

    cluster = target_quotas(settings)
    if apply:
        pull_into_log(settings, cluster, comment, dry_run=dry_run, yes=yes, as_json=as_json)
    elif file is None:
        print(quota_file(cluster), end="")
    else:
        write_new_file("--output", file, quota_file(cluster))
        print(f"Wrote {file}; mutation-quota quotas apply {file} --dry-run shows what it changes.")


def drift(
    context: typer.Context,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Tell what is otherwise on the cluster than in the log, as a diff from the log to the cluster; exit 3 if anything.

    quotas push makes the cluster as the log is, quotas pull --apply the log as the cluster is.
    """
    settings = read_settings(context, overrides, config, server)
    from jobs.cli.control.cluster_changes import find_drift, target_quotas

    if find_drift(settings, target_quotas(settings), as_json=as_json):
        raise typer.Exit(DIFFERS)
