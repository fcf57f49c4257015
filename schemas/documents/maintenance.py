"""The document on the upkeep of tables."""

import msgspec


class MaintainedTable(msgspec.Struct, frozen=True):
    """The upkeep of a table."""

    table: str
    files_compacted: int
    """The number of small files that were compacted."""
    files_written: int | None
    """The number of files that replaced them; null for a dry run, or if none were compacted."""
    rows_deleted: int
    """The number of rows that were deleted, because they were older than `keep_days`."""
    files_removed: int
    """The number of files that were removed from the storage, because no version of the last two days uses them."""


class Maintenance(msgspec.Struct, frozen=True):
    """The output of `maintain`."""

    tables: list[MaintainedTable]
    applied: bool
    """Whether the tables were changed; false for a dry run, whose numbers are those of the changes that would be
    made."""
