"""The audit's tables as a stream of another program, as their page says."""

import pytest

from jobs.audit.upkeep import THOROUGH
from tests.unit.jobs.audit.conftest import NOON, Decisions, settings_of


@pytest.mark.nightly
def test_a_stream_that_ignores_deletes_has_each_row_once_through_upkeep(spark, tmp_path):
    """Ten days ago a row expires, and small files are compacted, while the reader is away."""
    kept = Decisions(settings_of(tmp_path, "audit.keep_days.decisions=5"))

    def follow():
        rows = spark.readStream.format("delta").option("ignoreDeletes", "true").load(str(kept.path))
        places = {"path": str(tmp_path / "copy"), "checkpointLocation": str(tmp_path / "checkpoint")}
        rows.writeStream.options(**places).trigger(availableNow=True).start().awaitTermination()
        return sorted(row.offset for row in spark.read.load(str(tmp_path / "copy")).select("source.offset").collect())

    kept.commit(1, day=-10)
    kept.commit(3)
    assert follow() == [1, 2, 3, 4]
    result = kept.maintain(NOON, THOROUGH)
    assert (result.rows_deleted, result.files_compacted) == (1, 3)
    kept.commit(2)
    assert follow() == [1, 2, 3, 4, 5, 6]
