"""Decisions of the audit's tables, as DuckDB reads them."""

from unittest.mock import Mock

import duckdb
import pytest

from jobs.audit.decisions import read_decisions


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError("Out of Memory Error: failed to pin block"), duckdb.OutOfMemoryException),
        (OSError("Input/output error"), OSError),
    ],
)
def test_memory_that_is_used_up_while_rows_are_read_is_no_error_of_the_store(error, raised):
    """Arrow's reader has the text of DuckDB's error alone."""
    rows = Mock()
    rows.project.return_value.to_arrow_reader.return_value = iter(lambda: (_ for _ in ()).throw(error), None)
    with pytest.raises(raised, match=str(error)):
        list(read_decisions(rows))
