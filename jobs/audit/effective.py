"""The effective topics of a decision in SQL, for Spark and DuckDB; `quota.records.decision.Charges` has them in Python.

The conditions are about one `topic` of a row of `decisions`. `{number}` is its number in the row's `topics`, from 0.
"""

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["admitted", "refused", "charged"]

EFFECTIVE = "NOT validate_only AND (repeats IS NULL OR {number} >= repeats.topics)"
"""Whether the topic counts: the request was not validate-only, and no earlier decision on it has charged the topic."""

_OUTCOMES: dict[Outcome, str] = {
    "admitted": "topic.error_code = 0",
    "refused": "topic.error_code <> 0",
    "charged": "quota IS NOT NULL AND coalesce({shadow_code}, topic.error_code) = 0",
}
"""Whether the decision had this outcome for the topic. A quota in shadow charges as it would have decided."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The expressions that Spark and DuckDB spell differently."""

    number: str
    shadow_code: str
    """The error code of the topic according to a quota in shadow, or null."""
    total: str
    """The sum of `{value}` over all topics, as a bigint."""


SPARK = Dialect(
    number="number",
    shadow_code="get(shadow.error_codes, number)",
    total="aggregate(transform(topics, (topic, number) -> {value}), 0L, (total, value) -> total + value)",
)
DUCKDB = Dialect(  # its lists begin at 1
    number="number - 1",
    shadow_code="shadow.error_codes[number]",
    total="coalesce(list_sum(list_transform(topics, lambda topic, number: {value})), 0)::BIGINT",
)


def count_topics(outcome: Outcome, dialect: Dialect) -> str:
    """Return the expression for the number of a decision's effective topics with an outcome."""
    return _total("1", outcome, dialect)


def sum_mutations(outcome: Outcome, dialect: Dialect) -> str:
    """Return the expression for the mutations of a decision's effective topics with an outcome."""
    return _total("topic.partitions", outcome, dialect)


def _total(value: str, outcome: Outcome, dialect: Dialect) -> str:
    condition = f"{EFFECTIVE} AND {_OUTCOMES[outcome]}".format(number=dialect.number, shadow_code=dialect.shadow_code)
    return dialect.total.format(value=f"CASE WHEN {condition} THEN {value} ELSE 0 END")
