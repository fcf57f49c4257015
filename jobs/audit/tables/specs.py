"""The definitions of the Delta tables, their versions, and the errors about tables of another version."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructType

from quota.errors import MutationQuotaError
from schemas import dead_letters, decisions, quota_changes, tenant_minutes

VERSION_PROPERTY = "mutationQuota.schemaVersion"
"""The table property that holds the version of a table."""

PROPERTIES = {
    # An audit makes 8,640 commits a day, and a listing of the log takes time for each file of it.
    "delta.logRetentionDuration": "interval 2 days",
    "delta.deletedFileRetentionDuration": "interval 2 days",
    # To open a table is to read the newest checkpoint and each commit after it. A checkpoint names the removed files of
    # two days, too, which takes 2.3 MB; of every tenth commit, the checkpoints of two days took 4 GB.
    "delta.checkpointInterval": "30",
}
"""The properties of a table that bound its log, unless an operator has set others. `minutes` may be behind as long."""

_REBUILT = {
    "audit": "the audit then stores again all records that are still in its topics",
    "minutes": "all minutes are made again of the decisions that are there",
}
"""What each query does if its tables and its checkpoint are moved away."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A Delta table, partitioned by `date`."""

    name: str
    """The name of its folder."""
    schema: StructType
    version: int
    query: str = "audit"
    """The query that writes it."""
    dated: bool = True
    """Whether copies of a record have the same date; a record without a timestamp of its own gets its copy's."""

    def read_version(self, path: str, properties: Mapping[str, str]) -> int:
        """Return the version of an existing table, from its properties.

        Raises:
            MutationQuotaError: it has none, or that of a newer program.
        """
        version = properties.get(VERSION_PROPERTY, "")
        if not version.isdecimal():
            raise self.foreign_error(path, f"it has no {VERSION_PROPERTY}")
        if int(version) > self.version:
            raise MutationQuotaError(
                f"the table {path} was written by a newer program, as version {version} (this one writes version "
                f"{self.version}); start that program again, or move the table and checkpoints/{self.query} away "
                f"({_REBUILT[self.query]})"
            )
        return int(version)

    def foreign_error(self, path: str, reason: str) -> MutationQuotaError:
        """Return the error for a path that holds something else."""
        return MutationQuotaError(
            f"{path} is not a table of this version ({reason}); move it away, and checkpoints/{self.query} "
            f"with it ({_REBUILT[self.query]}), or set another storage.root"
        )


DECISIONS = TableSpec("decisions", decisions.TABLE, decisions.VERSION)
DEAD_LETTERS = TableSpec("dead_letters", dead_letters.TABLE, dead_letters.VERSION, dated=False)
QUOTA_CHANGES = TableSpec("quota_changes", quota_changes.TABLE, quota_changes.VERSION)
TENANT_MINUTES = TableSpec("tenant_minutes", tenant_minutes.TABLE, tenant_minutes.VERSION, query="minutes")

TABLES = (DECISIONS, DEAD_LETTERS, QUOTA_CHANGES)
"""The tables that the audit writes."""


def missing_error(path: str) -> MutationQuotaError:
    """Return the error for a table that does not exist."""
    return MutationQuotaError(f"there is no table {path}: run mutation-quota audit first, or correct storage.root")
