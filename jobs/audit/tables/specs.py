"""The definitions of the Delta tables, their versions, and the errors about tables of another version."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructType

from quota.errors import MutationQuotaError, NotFound
from schemas import dead_letters, decisions, quota_changes

VERSION_PROPERTY = "mutationQuota.schemaVersion"
"""The table property that holds the version of a table."""

PROPERTIES = {
    # The audit makes 8,640 commits a day, and each file of the log adds to the time of listing it.
    "delta.logRetentionDuration": "interval 2 days",
    "delta.deletedFileRetentionDuration": "interval 2 days",
    # Opening a table reads the newest checkpoint and each commit after it. A checkpoint also names the files that were
    # removed within two days, and has 2.4 MB then. With every tenth commit, the checkpoints of two days had 4 GB.
    "delta.checkpointInterval": "30",
}
"""The properties of a table that bound its log, unless an operator has set others."""

_REBUILT = "the audit then stores again all records that are still in its topics"
"""The effect of moving the tables and the audit's checkpoint away."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A Delta table, partitioned by `date`."""

    name: str
    """The name of its folder."""
    schema: StructType
    version: int
    dated: bool = True
    """Whether copies of a record have the same date; a record without its own timestamp gets that of its copy."""

    def read_version(self, path: str, properties: Mapping[str, str]) -> int:
        """Return the version of a table from its properties."""
        version = properties.get(VERSION_PROPERTY, "")
        if not version.isdecimal():
            raise self.foreign_error(path, f"it has no {VERSION_PROPERTY}")
        if int(version) > self.version:
            raise MutationQuotaError(
                f"the table {path} was written by a newer program, as version {version} (this one writes version "
                f"{self.version}); start that program again, or move the table and checkpoints/audit away "
                f"({_REBUILT})"
            )
        return int(version)

    def foreign_error(self, path: str, reason: str) -> MutationQuotaError:
        """Return the error for a path that contains something else."""
        return MutationQuotaError(
            f"{path} is not a table of this version ({reason}); move it away, and checkpoints/audit "
            f"with it ({_REBUILT}), or set another storage.root"
        )


DECISIONS = TableSpec("decisions", decisions.TABLE, decisions.VERSION)
DEAD_LETTERS = TableSpec("dead_letters", dead_letters.TABLE, dead_letters.VERSION, dated=False)
QUOTA_CHANGES = TableSpec("quota_changes", quota_changes.TABLE, quota_changes.VERSION)

TABLES = (DECISIONS, DEAD_LETTERS, QUOTA_CHANGES)
"""The tables that the audit writes."""


class MissingTable(NotFound):
    """A table does not exist."""


def missing_error(path: str) -> MissingTable:
    """Return the error for a table that does not exist."""
    return MissingTable(f"there is no table {path}: run mutation-quota audit first, or correct storage.root")
