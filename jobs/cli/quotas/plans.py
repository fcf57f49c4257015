"""Prints plans of quota changes as a diff, and writes them to the quota log."""

from collections import Counter
from collections.abc import Sequence

from jobs.cli.options import ConfirmOptions
from jobs.cli.output import OutputOptions, print_text
from jobs.cli.quotas.log import sign
from jobs.cli.quotas.text import planned_change
from quota.settings import Settings
from quota.text import plural
from quota.timeline.plan import Step
from schemas.documents.quotas import QuotaChanges

DIFFERENCES = 3
"""The exit code of a comparison that has found differences."""

_KINDS = ("added", "changed", "removed", "scheduled", "cancelled")
"""The kinds of steps, in the order in which they are counted."""


def print_steps(steps: Sequence[Step], output: OutputOptions) -> None:
    """Print the steps as a diff, unless they are printed as data later."""
    if output.for_people:
        for step in steps:
            print_text(str(step))


def write_steps(settings: Settings, steps: Sequence[Step], effective_at: int | None, comment: str | None) -> None:
    """Write the steps of a plan to the quota log."""
    from quota.kafka.quotas.writer import write_records

    write_records(settings, [sign(step.record, settings, comment, effective_at) for step in steps])


def change_log(
    settings: Settings,
    steps: Sequence[Step],
    effective_at: int | None,
    comment: str | None,
    *,
    confirmation: ConfirmOptions,
    output: OutputOptions,
) -> None:
    """Show a plan, ask for confirmation, and write its steps to the quota log, unless this is a dry run.

    They take effect at `effective_at` (epoch ms); as soon as they are written if it is None.
    """
    print_steps(steps, output)
    if steps and not confirmation.dry_run:
        confirmation.confirm(f"Make {plural(len(steps), 'change')} in the quota log ({tally(steps)})?")
        write_steps(settings, steps, effective_at, comment)
    document = QuotaChanges(not confirmation.dry_run, [planned_change(step, effective_at) for step in steps])
    output.print(document, lambda: print_count(steps, dry_run=confirmation.dry_run), items="changes")


def print_count(steps: Sequence[Step], *, dry_run: bool) -> None:
    """Print the number of changes, also by kind."""
    done = "would be made" if dry_run else "made"
    print(f"{plural(len(steps), 'change')} {done}: {tally(steps)}." if steps else "Nothing to change.")


def tally(steps: Sequence[Step]) -> str:
    """Return how many steps of each kind a plan has, as in `1 changed, 5 removed`."""
    counts = Counter(map(_kind, steps))
    return ", ".join(f"{counts[kind]:,} {kind}" for kind in _KINDS if counts[kind])


def _kind(step: Step) -> str:
    if step.record.effective_at is not None:
        return "cancelled" if step.record.cancelled else "scheduled"
    return {"+": "added", "~": "changed", "-": "removed"}[step.sign]
