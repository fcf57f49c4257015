"""`mutation-quota maintain`: runs the upkeep of the Delta tables on demand."""

from typing import TYPE_CHECKING, Annotated

import typer

from jobs.cli.options import ConfirmOptions, SettingsOptions
from jobs.cli.output import OutputOptions
from jobs.cli.tables import Columns, print_rows
from quota.errors import BadInput
from quota.settings import Settings
from quota.text import plural
from schemas.documents.records import Maintenance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobs.audit.tables import TableSpec
    from jobs.audit.upkeep import PlannedUpkeep, UpkeepResult

_COLUMNS: Columns = {
    "TABLE": "table",
    "FILES COMPACTED": "files_compacted",
    "INTO": "files_written",
    "ROWS DELETED": "rows_deleted",
    "FILES REMOVED": "files_removed",
}


def maintain(
    tables: Annotated[list[str] | None, typer.Argument(metavar="TABLE", help="Tables; all by default.")] = None,
    *,
    confirmation: ConfirmOptions,
    output: OutputOptions,
    where: SettingsOptions,
) -> None:
    """Compact the audit's tables, and delete expired rows.

    The audit does the same regularly (audit.upkeep_seconds). Rows older than audit.keep_days are deleted; small files
    are compacted; files that no version of the last two days uses are removed from the storage. enforce and audit may
    run meanwhile.

    Examples:
      mutation-quota maintain --dry-run
      mutation-quota maintain decisions --set audit.keep_days.decisions=400
    """
    settings = where.read()
    from jobs.audit.upkeep import PlannedUpkeep

    planned = PlannedUpkeep.of(settings, _find(settings, tables or []))
    if confirmation.dry_run:
        _print(planned.preview(), output, applied=False)
        return
    if expired := sum(plan.expired_rows for plan in planned.plans.values()):
        confirmation.check(output)
        confirmation.confirm(f"Delete {plural(expired, 'row')} for good?")
    _print(_carry_out(planned), output, applied=True)


def _find(settings: Settings, names: "Sequence[str]") -> "list[TableSpec]":
    from jobs.audit.tables import DECISIONS, TABLES, TableStore, missing_error
    from jobs.storage.stored_files import check_store

    known = {table.name: table for table in TABLES}
    for name in names:
        if name not in known:
            raise BadInput(f"table {name!r}: expected one of {', '.join(known)}")
    check_store(settings)
    store = TableStore.of(settings)
    if names:
        return [known[name] for name in dict.fromkeys(names)]
    existing = [table for table in known.values() if store.has(table)]
    if not existing:
        raise missing_error(store.path(DECISIONS))
    return existing


def _carry_out(planned: "PlannedUpkeep") -> "list[UpkeepResult]":
    from jobs.audit.upkeep import maintain as carry_out
    from jobs.progress import progress

    results = []
    with progress("maintaining the tables") as tell:
        for number, (table, plan) in enumerate(planned.plans.items(), 1):
            tell(f"maintaining {table.name}: table {number} of {len(planned.plans)}")
            results.append(carry_out(planned.store, table, plan, planned.now))
    return results


def _print(results: "Sequence[UpkeepResult]", output: OutputOptions, *, applied: bool) -> None:
    def table() -> None:
        print_rows(results, _COLUMNS, optional=[*_COLUMNS][:0:-1])
        if not applied:
            print("Nothing was changed.")

    output.print(Maintenance([*results], applied), table, items="tables")
