"""The effective topics in SQL are those of `Decision`."""

import duckdb

from jobs.audit.effective import sum_mutations
from tests.support.effective import OUTCOMES, effective_decisions, effective_sums
from tests.support.tables import arrow_tables, decision_row


def test_duckdb_counts_what_is_effective():
    decided = effective_decisions()
    with duckdb.connect() as db:
        db.register("decisions", arrow_tables(decisions=map(decision_row, decided))["decisions"])
        columns = [sum_mutations(outcome) for outcome in OUTCOMES]
        rows = db.execute(f"SELECT decision_id, {', '.join(columns)} FROM decisions").fetchall()  # noqa: S608 ours
    assert {name: tuple(sums) for name, *sums in rows} == {
        each.decision_id: effective_sums(each)[len(OUTCOMES) :] for each in decided
    }


def test_each_outcome_has_effective_mutations():
    sums = {effective_sums(each) for each in effective_decisions()}
    assert len(sums) > 20
    assert all(len({each[column] for each in sums}) > 2 for column in range(6))
