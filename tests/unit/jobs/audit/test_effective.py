"""The effective topics in SQL are those of `Decision`."""

from itertools import product

import duckdb
import msgspec

from jobs.report.queries import sum_mutations
from quota.records.decision import Outcome, Repeat, Shadow, TopicDecision
from quota.records.record import Source
from tests.support.factories import decided
from tests.support.tables import arrow_tables, decision_row

TOPICS = [
    TopicDecision("a", 3, 0, "NONE", None),
    TopicDecision("b", 50, 0, "NONE", None),
    TopicDecision("c", 700, 89, "THROTTLING_QUOTA_EXCEEDED", "refused"),
    TopicDecision("d", 9000, 89, "THROTTLING_QUOTA_EXCEEDED", "refused"),
]
SHADOWS = [None, [0, 0, 89, 89], [89, 89, 0, 0], [0, 89, 0, 89]]


def effective_decisions():
    """Return decisions with and without a quota, in shadow, validate-only, and repeated with any number of topics."""
    kinds = product((False, True), (None, 0, 1, 2, 3, 4), SHADOWS, (None, 5.0), (TOPICS, TOPICS[::-1], TOPICS[:0]))
    decisions = []
    for number, (validate_only, paid, codes, quota, topics) in enumerate(kinds):
        source = Source("requests", 0, number)
        fields = {
            "decision_id": str(source),
            "source": source,
            "validate_only": validate_only,
            "repeats": None if paid is None else Repeat("requests-0-0", min(paid, len(topics))),
            "shadow": None if codes is None else Shadow(Outcome.PARTIAL, codes[: len(topics)], 0, 0),
            "quota": quota,
            "topics": topics,
        }
        decisions.append(msgspec.structs.replace(decided(1), **fields))
    return decisions


def effective_sums(decision):
    """Return the mutations that were admitted, and those that were refused."""
    topics = decision.topics[decision.free_topics :]
    refused = sum(topic.partitions for topic in topics if topic.error_code)
    return sum(topic.partitions for topic in topics) - refused, refused


def test_duckdb_counts_what_is_effective():
    decisions = effective_decisions()
    with duckdb.connect() as db:
        db.register("decisions", arrow_tables(decisions=map(decision_row, decisions))["decisions"])
        columns = [sum_mutations(f"topic.error_code {operator} 0") for operator in ("=", "<>")]
        rows = db.execute(f"SELECT decision_id, {', '.join(columns)} FROM decisions").fetchall()  # noqa: S608 ours
    assert {name: tuple(sums) for name, *sums in rows} == {each.decision_id: effective_sums(each) for each in decisions}
