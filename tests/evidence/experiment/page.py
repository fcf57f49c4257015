"""The page docs/evidence/experiment/experiment.md."""

import os
import platform
import textwrap
from collections.abc import Sequence

from jobs.spark.installation import jars_folder
from quota.settings import Settings
from tests.evidence.experiment.arm import DECIDED, DIRECT, Plan, StormQuota
from tests.evidence.experiment.figures import Arm, Phase, between, done, summary, throughput
from tests.evidence.experiment.report import storm_table, tenant_tables, waits
from tests.evidence.experiment.storm import EVERY_SECONDS, PARTITIONS
from tests.evidence.pages import milliseconds, versions

_WIDTH = 118

_METHOD = """\
All arms run the same: a broker, the enforcing job on Spark, and two tenants that have nothing to do with the storm;
broker and job are warmed up alike. Each tenant creates a topic of one partition every {every:g} ms, without waiting for
those before, and writes a record to it as soon as it is created.

- Tenant *direct* goes straight to the cluster by confluent-kafka's AdminClient: the effect on the cluster alone.
- Tenant *decided* asks for a decision first, by `QuotaAdminClient`, and has no quota: what a tenant of such a cluster
  goes through.
- *Without a quota* the storm goes straight to the cluster by AdminClient, and no request waits for the answer to the
  one before.
- *With a quota* it goes through `QuotaAdminClient` at the same pace, which carries out itself what is admitted and
  asks again for what is refused (`retry_on_quota_violation`), for {limit:g} s each for the creation and the deletion.
  What is not admitted by then counts as refused. If it is not given (`--quota`), the quota is a quarter of the rate
  at which the cluster worked off the storm in the first arm: KIP-599 says to find the limit first, and to leave room.
{java}
*Answered* is when the create has succeeded, *usable* when the topic's first record is acknowledged, both counted from
when the create was due. *Before* are {baseline:g} s without a storm. A phase lasts from the storm's first request until
the cluster has caught up, and {least:g} s at least. *Caught up* means that three topics in a row that tenant *direct*
begins after the storm's last answer are usable as quickly as the slowest one before the storm, and that the metadata
has all topics that the storm has made and none that it has deleted; the moment is when the first of the three is
usable.
"""

_JAVA = """\
- *Java client, gateway*: the storm by Kafka's own AdminClient, unchanged, with its own retry and the same pace and time
  limits, through `mutation-quota gateway`. It knows nothing of the job, which decides by the same quota.
- *Java client, broker's quota*: the same client at the broker itself, which enforces `controller_mutation_rate` on its
  client-id, as Kafka does since KIP-599 (and with Kafka's own burst, whatever `--burst` says). The job runs beside it,
  for tenant *decided* alone.
"""

_EMBEDDED = (
    "The storm is divided by what file descriptors, memory maps and memory of the machine leave room for. "
    "Each arm has a fresh broker with a data folder of its own. Brokers keep the files of deleted partitions for a "
    "minute (`file.delete.delay.ms`): removing them falls behind the end of the arm without a quota, and for some of "
    "them into the next one's deletion."
)
_NAMED = "Both arms ran on one cluster, one after the other; the experiment's topics were removed in between."

_ONE_NODE = (
    "One node that is broker and controller, on {cores} cores that it shares with Spark and with the program that "
    "measures, has no replicas to fetch, no leaders to elect and no other brokers to tell. A real cluster has more to "
    "do for each topic, and the job takes none of its cores. "
)
_ONE_RUN = (
    "One run is one run: look at the orders of magnitude. The phases of the arms are not equally long, so the "
    "maximum says more than the percentiles."
)


def page(arms: Sequence[Arm], plan: Plan, quota: StormQuota, settings: Settings) -> str:
    """Return the page in Markdown."""
    method = _METHOD.format(
        every=EVERY_SECONDS * 1000,
        limit=plan.limit,
        java=_JAVA if plan.embedded else "",
        baseline=plan.baseline,
        least=plan.least,
    )
    tables = "\n\n".join(
        f"### {table.title[0].upper()}{table.title[1:]}\n\n{table.markdown()}"
        for table in (*tenant_tables(arms), storm_table(arms))
    )
    return f"""\
# KIP-599's own experiment

Written by `make experiment`, which does it again.

{_filled(f"{plan.sentence()} The storm's quota: {quota.words(settings)}.")}

![Each create of the tenants, and what was carried out of the storm](experiment.svg)

## What came out

{tables}

## How to read it

{_reading(arms[:2], quota, settings)}{_by_java(arms[2:])}

{_filled((_ONE_NODE.format(cores=os.cpu_count()) if plan.embedded else "") + _ONE_RUN)}

## How it was measured

{method}
{_filled(_EMBEDDED if plan.embedded else _NAMED)}

{_filled(f"On {_machine(plan, settings)}.")}
"""


def _reading(arms: Sequence[Arm], quota: StormQuota, settings: Settings) -> str:
    """Return the reading of the figures."""
    without, with_quota = arms
    answered, usable = zip(*(waits(arm, DIRECT, "creation") for arm in arms), strict=True)
    _, deleting = zip(*(waits(arm, DIRECT, "deletion") for arm in arms), strict=True)
    as_long = summary(
        each.seconds_to_use
        for each in between(with_quota.creates[DIRECT], with_quota.creation.begun, without.creation.ended)
    )
    answer = (
        "**The answer does not tell.** The controller answers once a change stands in its log: without a quota the "
        f"slowest answer to tenant *direct* while the storm was created took {milliseconds(answered[0].largest)} ms. "
        "Brokers carry changes out in the order of that log, and what comes behind the storm waits for all of it: "
        f"a topic of the tenant took no record for up to {milliseconds(usable[0].largest)} ms. "
        "It is the queue that KIP-599 speaks of, before the brokers instead of the controller."
    )
    with_it = (
        f"**With the quota** it was {milliseconds(usable[1].largest)} ms at most. Half of the topics were usable "
        f"within {milliseconds(usable[1].p50)} ms, and within {milliseconds(as_long.p50)} ms in the first "
        f"{without.creation.ended:.0f} s, which is how long the storm without a quota was felt "
        f"({milliseconds(usable[0].p50)} ms without). The bucket is full when the storm begins, so that "
        f"{settings.quota.window.burst(quota.rate, quota.burst):,.0f} mutations pass at once and make a queue of their "
        "own; `controller_mutation_burst` makes that one shorter (`--burst`)."
    )
    deletion = (
        f"**The deletion**, one request: up to {milliseconds(deleting[0].largest)} ms without a quota "
        f"({len(without.deletion.settled):,} topics), {milliseconds(deleting[1].largest)} ms with one "
        f"({len(with_quota.deletion.settled):,} topics, and the bucket was not full any more)."
    )
    cost = (
        f"**What it costs.** The storm is told to wait, which is the intention: in {_seconds(with_quota.creation)} s "
        f"it got {_done(with_quota.creation)} topics created and in another {_seconds(with_quota.deletion)} s "
        f"{_done(with_quota.deletion)} deleted, instead of {_done(without.creation)} in {_seconds(without.creation)} s "
        f"and {_done(without.deletion)} in {_seconds(without.deletion)} s. Everyone has to ask: with no storm about, "
        f"half of the creates of tenant *decided* were answered within {_either(arms, DECIDED)} ms in the two arms, "
        f"those of tenant *direct* within {_either(arms, DIRECT)} ms."
    )
    figures = throughput(without, PARTITIONS)
    capacity = (
        "**What the controller takes**: without a quota the storm was worked off at "
        f"{figures.created_per_second:,.0f} mutations a second created and {figures.deleted_per_second:,.0f} deleted, "
        "each from its first request until the cluster had caught up. `mutation-quota recommend --experiment "
        "experiment.json` sizes quotas by the lower of the two ([how](../../how-to/recommend.md))."
    )
    return "\n".join(_filled(f"- {point}", "  ") for point in (answer, with_it, deletion, cost, capacity))


def _by_java(arms: Sequence[Arm]) -> str:
    """Return the reading of the arms with Kafka's own client; nothing if there are none."""
    if not arms:
        return ""
    point = "**Kafka's own AdminClient**, which nobody has told of this project, was told to wait as well. " + " ".join(
        f"*{arm.name}*: {_done(arm.creation)} topics created in {_seconds(arm.creation)} s and {_done(arm.deletion)} "
        f"deleted in {_seconds(arm.deletion)} s, while a topic of tenant *direct* was usable after "
        f"{milliseconds(waits(arm, DIRECT, 'creation')[1].p50)} ms (median), "
        f"{milliseconds(waits(arm, DIRECT, 'creation')[1].largest)} ms at most."
        for arm in arms
    )
    return "\n" + _filled(f"- {point}", "  ")


def _done(phase: Phase) -> str:
    return f"{len(done(phase.settled)):,} of {len(phase.settled):,}"


def _either(arms: Sequence[Arm], tenant: str) -> str:
    """Return the medians before the storm, in both arms, which are alike until then."""
    return " and ".join(milliseconds(waits(arm, tenant, "before")[0].p50) for arm in arms)


def _filled(text: str, indent: str = "") -> str:
    return textwrap.fill(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _seconds(phase: Phase) -> str:
    return f"{phase.answered - phase.begun:.1f}"


def _machine(plan: Plan, settings: Settings) -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    kafka = "a named cluster"
    if plan.embedded:
        (jar,) = jars_folder(settings.broker.jars).glob("kafka_2.13-*.jar")
        kafka = f"the embedded Kafka {jar.stem.removeprefix('kafka_2.13-')} (heap {settings.broker.memory})"
    return (
        f"{os.cpu_count()} cores and {memory:.0f} GB, {platform.system()}; Python {platform.python_version()}, "
        f"{versions('confluent-kafka', 'pyspark')}; {kafka}"
    )
