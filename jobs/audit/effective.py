"""The effective topics of a decision in SQL, for DuckDB; `quota.records.decision.Decision` has them in Python.

The conditions are about one `topic` of a row of `decisions`. `{number}` is its number in the row's `topics`, from 0.
"""

from typing import Literal

Outcome = Literal["admitted", "refused", "charged"]

EFFECTIVE = "NOT validate_only AND (repeats IS NULL OR {number} >= repeats.topics)"
"""Whether the topic counts: the request was not validate-only, and no earlier decision on it has charged the topic."""

_OUTCOMES: dict[Outcome, str] = {
    "admitted": "topic.error_code = 0",
    "refused": "topic.error_code <> 0",
    "charged": "quota IS NOT NULL AND coalesce(shadow.error_codes[number], topic.error_code) = 0",
}
"""Whether the decision had this outcome for the topic. A quota in shadow charges as it would have decided."""


def sum_mutations(outcome: Outcome) -> str:
    """Return the expression for the mutations of a decision's effective topics with an outcome."""
    condition = f"{EFFECTIVE.format(number='number - 1')} AND {_OUTCOMES[outcome]}"  # DuckDB's lists begin at 1
    mutations = f"CASE WHEN {condition} THEN topic.partitions ELSE 0 END"
    return f"coalesce(list_sum(list_transform(topics, lambda topic, number: {mutations})), 0)::BIGINT"
