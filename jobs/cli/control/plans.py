"""Plans of changes on the command line: shown as a diff, confirmed, and told when they are done."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from jobs.cli.control.quota_log import sign
from jobs.cli.control.quota_text import plan_json
from jobs.cli.options import print_json
from quota.errors import BadInput, MutationQuotaError
from quota.settings import Settings
from quota.timeline.plan import Step

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan, and do nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]


def print_plan(steps: Sequence[Step], *, as_json: bool) -> None:
    """Print the steps as a diff, unless they are told as JSON in the end."""
    if not as_json:
        for step in steps:
            print(step)


def check_confirmable(*, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Check that somebody can be asked, before anything is done.

    Raises:
        BadInput: nobody can, and `--yes` is not given.
    """
    if dry_run or yes:
        return
    if as_json:
        raise BadInput("--json asks nobody: give --yes to do it, or --dry-run to see what would be done")
    if not sys.stdin.isatty():
        raise BadInput("there is no terminal to ask on: give --yes to do it, or --dry-run to see what would be done")


def confirm(question: str, *, yes: bool) -> None:
    """Ask on the terminal, unless the answer is given.

    Raises:
        MutationQuotaError: the answer is no.
    """
    if not yes and not typer.confirm(question, err=True):
        raise MutationQuotaError("nothing was changed")


def write_steps(settings: Settings, steps: Sequence[Step], effective_at: int | None, comment: str | None) -> None:
    """Write the steps of a plan to the quota log.

    Raises:
        ClusterError: not all were acknowledged in time.
    """
    from quota.kafka.quota_writer import write_records

    write_records(settings, [sign(step.record, settings, comment, effective_at) for step in steps])


def print_outcome(
    steps: Sequence[Step], *, dry_run: bool, as_json: bool, more: Mapping[str, Any] | None = None
) -> None:
    """Print what was done, or the whole of it as JSON, with more fields."""
    if as_json:
        print_json({"applied": not dry_run, "changes": [plan_json(step) for step in steps], **(more or {})})
    else:
        done = "would be made" if dry_run else "made"
        print(f"{len(steps)} changes {done}." if steps else "Nothing to change.")
