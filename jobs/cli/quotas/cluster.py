"""The quotas of a cluster whose brokers enforce them: `mutation-quota quotas push`, `pull` and `drift`."""

from functools import partial
from typing import Annotated

import typer

from jobs.cli.options import Comment, ConfirmOptions, FileOptions, TargetOptions
from jobs.cli.output import OutputOptions, print_text
from jobs.cli.quotas.log import DIFFERENCES
from quota.errors import BadInput
from quota.text import plural
from schemas.documents.quotas import PulledQuotas

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
    from jobs.cli.quotas.cluster_changes import push_quotas, target_quotas

    cluster = target_quotas(settings)
    push_now = partial(push_quotas, settings, cluster, prune=prune, confirmation=confirmation, output=output)
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
    changes stay. --output is the format of the changes, or of the summary that is printed if --output-file names a
    file.

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
    from jobs.cli.quotas.cluster_changes import pull_into_log, quota_file, target_quotas

    cluster = target_quotas(settings)
    if apply:
        pull_into_log(settings, cluster, comment, confirmation=confirmation, output=output)
        return
    content, count = quota_file(cluster)
    file.write(content)
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
    from jobs.cli.quotas.cluster_changes import find_drift, target_quotas

    if find_drift(settings, target_quotas(settings), output):
        raise typer.Exit(DIFFERENCES)
