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
All arms run a broker, the enforcing job on Spark, and two tenants that are independent of the storm. Broker and job are
warmed up in the same way. Each tenant creates a topic of one partition every {every:g} ms, without waiting for
earlier ones, and writes a record to it as soon as it is created.

- Tenant *direct* calls the cluster with confluent-kafka's AdminClient. It shows the effect on the cluster alone.
- Tenant *decided* requests a decision first, with `QuotaAdminClient`, and has no quota. It shows what a tenant of such
  a cluster experiences.
- *Without a quota* the storm calls the cluster with AdminClient, and no request waits for the response to the one
  before.
- *With a quota* the storm uses `QuotaAdminClient` at the same pace. The client executes what is admitted and retries
  what is refused (`retry_on_quota_violation`), for {limit:g} s each for the creation and the deletion. Topics that are
  not admitted by then count as refused. Unless `--quota` sets it, the quota is a quarter of the rate at which the
  cluster processed the storm in the first arm: KIP-599 says to find the limit first, and to leave room.
{java}
*Answered* is the time until the creation succeeds, *usable* the time until the topic's first record is acknowledged.
Both start when the creation was due. *Before* is a period of {baseline:g} s without a storm. A phase lasts from the
storm's first request until the cluster has caught up, at least {least:g} s. *Caught up* means two things: after the
storm's last response, three consecutive topics of tenant *direct* are usable as quickly as the slowest one before the
storm, and the metadata contains all topics that the storm created and none that it deleted. The time is taken when the
first of the three topics is usable.
"""

_JAVA = """\
- *Java client, gateway*: Kafka's unmodified AdminClient sends the storm through `mutation-quota gateway`, with its own
  retries and the same pace and time limits. The job decides with the same quota.
- *Java client, broker's quota*: the same client calls the broker directly, which enforces `controller_mutation_rate` on
  its client-id, as Kafka does since KIP-599 (with Kafka's own burst, regardless of `--burst`). The job runs for tenant
  *decided* alone.
"""

_EMBEDDED = (
    "The storm is scaled down as far as the file descriptors, memory maps and memory of the machine require. "
    "Each arm has a new broker with its own data folder. Brokers keep the files of deleted partitions for a "
    "minute (`file.delete.delay.ms`): those of the arm without a quota are removed after its end, some of them "
    "during the deletion of the next arm."
)
_NAMED = "Both arms ran on one cluster, one after the other; the experiment's topics were removed in between."

_ONE_NODE = (
    "The cluster is one node, broker and controller, on {cores} cores shared with Spark and the measuring program. It "
    "fetches no replicas, elects no leaders and informs no other brokers. A real cluster has more work for each topic, "
    "and the job uses none of its cores. "
)
_ONE_RUN = (
    "This is a single run, so only the orders of magnitude count. The phases of the arms are not equally long, so the "
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

`make experiment` repeats this experiment and writes this page.

{_filled(f"{plan.sentence()} The storm's quota: {quota.words(settings)}.")}

Tenant *direct* calls the cluster alone; tenant *decided* first requests a decision for each topic, as every tenant does
in such a deployment.

![Each topic creation of the tenants, and the progress of the storm](experiment.svg)

## Results

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
        "**The response hides the delay.** The controller responds once a change is in its log: without a quota, the "
        f"slowest response to tenant *direct* while the storm was created took {milliseconds(answered[0].largest)} ms. "
        "Brokers apply changes in the order of that log, and a change after the storm waits for all of the storm: "
        f"a topic of the tenant accepted no record for up to {milliseconds(usable[0].largest)} ms. "
        "This is the queue that KIP-599 describes, in front of the brokers instead of the controller."
    )
    with_it = (
        f"**With the quota** this time was {milliseconds(usable[1].largest)} ms at most. The median was "
        f"{milliseconds(usable[1].p50)} ms, and {milliseconds(as_long.p50)} ms in the first "
        f"{without.creation.ended:.0f} s, which is as long as the storm without a quota had an effect "
        f"({milliseconds(usable[0].p50)} ms without a quota). The bucket is full when the storm begins, so "
        f"{settings.quota.window.burst(quota.rate, quota.burst):,.0f} mutations are admitted at once and form a "
        "separate queue; `controller_mutation_burst` makes this queue shorter (`--burst`)."
    )
    deletion = (
        "**The deletion** is one request: topics were usable after at most "
        f"{milliseconds(deleting[0].largest)} ms without a quota ({len(without.deletion.settled):,} topics), and after "
        f"{milliseconds(deleting[1].largest)} ms with one "
        f"({len(with_quota.deletion.settled):,} topics, and the bucket was no longer full)."
    )
    cost = (
        f"**The cost.** The storm is throttled, as intended: it created {_done(with_quota.creation)} topics in "
        f"{_seconds(with_quota.creation)} s and deleted {_done(with_quota.deletion)} in another "
        f"{_seconds(with_quota.deletion)} s, instead of {_done(without.creation)} in {_seconds(without.creation)} s "
        f"and {_done(without.deletion)} in {_seconds(without.deletion)} s. Every tenant has to request decisions: "
        f"without a storm, half of the creations of tenant *decided* were answered within {_either(arms, DECIDED)} ms "
        f"in the two arms, those of tenant *direct* within {_either(arms, DIRECT)} ms."
    )
    figures = throughput(without, PARTITIONS)
    capacity = (
        "**The capacity of the controller.** Without a quota, the cluster processed the storm at "
        f"{figures.created_per_second:,.0f} mutations per second for creation and {figures.deleted_per_second:,.0f} "
        "for deletion, from the first request until the cluster had caught up. `mutation-quota recommend --experiment "
        "experiment.json` sizes quotas by the lower of the two ([how to](../../how-to/recommend.md))."
    )
    return "\n".join(_filled(f"- {point}", "  ") for point in (answer, with_it, deletion, cost, capacity))


def _by_java(arms: Sequence[Arm]) -> str:
    """Return the reading of the arms with Kafka's own client; nothing if there are none."""
    if not arms:
        return ""
    point = "**Kafka's own AdminClient**, unmodified, was throttled as well. " + " ".join(
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
    """Return the medians before the storm of both arms, which do not differ until then."""
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
