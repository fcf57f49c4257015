"""The page docs/evidence/experiment/observed.md."""

import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from quota.settings import Settings
from tests.evidence.experiment.arm import DIRECT, Plan
from tests.evidence.experiment.figures import Arm
from tests.evidence.experiment.report import storm_table, tenant_tables, waits
from tests.evidence.experiment.storm import EVERY_SECONDS
from tests.evidence.observed.cost import RATE, LogCost
from tests.evidence.pages import Table, milliseconds

_WIDTH = 118


@dataclass(frozen=True, slots=True)
class Observed:
    """The observation of the first arm, and the quota that followed from it."""

    summary: Mapping[str, Any]
    """Output of `observe import --output json`."""
    quota: float
    """The storm's quota, mutations/s."""
    log_bytes: int


@dataclass(frozen=True, slots=True)
class Results:
    """All results of the run."""

    plan: Plan
    arms: Sequence[Arm]
    """Without quotas, and with those that were pushed."""
    observed: Observed
    compared: Mapping[str, Any]
    """Output of `observe compare --output json` on the second arm."""
    cost: LogCost
    quotas: str
    """Content of the quota file."""
    settings: Settings


_METHOD = """\
{storm} Kafka's own AdminClient sends them, with its own retries. Meanwhile a tenant creates a topic of one partition
every {every:g} ms with librdkafka. In the first arm the broker has no quotas, and its request log is at DEBUG. From
this log of {megabytes:,.0f} MB, `recommend` sizes quotas that allocate a quarter of the cluster's measured capacity.
`quotas push` sets them on a new broker, which then limits the same storm."""

_COST = """\
A broker on {cores} cores serves {rate} produce requests per second, of one record each, and a consumer. The two log
levels alternate; the figures are medians. Log4j's ordinary file appender writes a line of JSON for every request of any
kind."""


def page(results: Results) -> str:
    """Return the page in Markdown."""
    tables = "\n\n".join(
        f"### {table.title[0].upper()}{table.title[1:]}\n\n{table.markdown()}"
        for table in (*tenant_tables(results.arms), storm_table(results.arms))
    )
    observed, window = results.observed, results.settings.quota.window
    storm, megabytes = results.plan.sentence(), observed.log_bytes / 2**20
    method = _METHOD.format(storm=storm, every=EVERY_SECONDS * 1000, megabytes=megabytes)
    return f"""\
# A storm observed, and limited by the brokers' own quotas

`make observed` repeats this experiment and writes this page. It shows [observe](../../how-to/observe.md) and
[quotas push](../../how-to/push.md) end to end, with no part of this project between clients and brokers.

{_filled(method)}

![Each topic creation of the tenant, and the progress of the storm](observed.svg)

## Results

{_filled(_reading(results.arms, observed))}

{tables}

## What was observed

{_summary(observed.summary).markdown()}

The quotas that followed (`recommend --by client`); bursts are rate · {window.num} · {window.size_seconds} s:

```yaml
{results.quotas.rstrip()}
```

## The broker's answers compared with ours

{_filled(_comparison(results.compared))}

{_causes(results.compared)}

## What the log costs a broker

{_filled(_COST.format(rate=RATE, cores=os.cpu_count()))}

{_cost(results.cost).markdown()}
"""


def _reading(arms: Sequence[Arm], observed: Observed) -> str:
    without, pushed = (waits(arm, DIRECT, "creation")[1] for arm in arms)
    return (
        f"While the storm was created, the tenant's topics were usable after {milliseconds(without.p50)} ms (median; "
        f"{milliseconds(without.largest)} ms at most) without quotas, and after {milliseconds(pushed.p50)} ms "
        f"({milliseconds(pushed.largest)} ms at most) with {observed.quota:g} mutations a second for the storm, "
        "enforced by the broker itself."
    )


def _summary(summary: Mapping[str, Any]) -> Table:
    names = {"CREATE_TOPICS": "create topics", "CREATE_PARTITIONS": "add partitions", "DELETE_TOPICS": "delete topics"}
    counts = [summary[f"{what}_by_operation"] for what in ("requests", "mutations", "assumed_topics")]
    rows = tuple((name, *(f"{count[key]:,}" for count in counts)) for key, name in names.items())
    return Table("observed", ("operation", "requests", "mutations", "topics with an assumed cost"), rows, words=1)


_COMPARED = """\
In the second arm {limited} requests had a quota. For {agreeing} of them, the broker's error codes and throttle times
were those that this project computes ({refused_by_both} were refused by both). {differing} were answered differently,
{unexplained} of these for an unknown reason."""
_COMPARED_KEYS = ("limited", "agreeing", "refused_by_both", "differing", "unexplained")


def _comparison(compared: Mapping[str, Any]) -> str:
    return _COMPARED.format(**{key: f"{compared[key]:,}" for key in _COMPARED_KEYS})


def _causes(compared: Mapping[str, Any]) -> str:
    if not compared["causes"]:
        return ""
    rows = tuple((cause, f"{count:,}") for cause, count in compared["causes"].items())
    return Table("causes", ("cause of the difference", "requests"), rows, words=1).markdown()


def _cost(cost: LogCost) -> Table:
    sides = (cost.without, cost.with_log)
    rows = (
        ("processor time of the broker, ms per second", *(f"{median(each.processor_ms):,.0f}" for each in sides)),
        ("acknowledgement, p50, ms", *(f"{median(each.p50_ms):.1f}" for each in sides)),
        ("acknowledgement, p99, ms", *(f"{median(each.p99_ms):.1f}" for each in sides)),
        ("bytes of log per request", "-", f"{cost.bytes_per_request:,.0f}"),
    )
    return Table("cost", ("", "WARN", "DEBUG"), rows, words=1)


def _filled(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
