"""The page docs/evidence/gateway/gateway-kills.md."""

import time

from quota.records.request import Operation
from tests.evidence.gateway.kills.clients import LIMIT_MS
from tests.evidence.gateway.kills.run import REPEATS_SECONDS, Plan
from tests.evidence.gateway.kills.verdict import Report
from tests.evidence.pages import Table, versions

_METHOD = """\
A broker, `mutation-quota enforce` with `repeats.window_seconds={window:.0f}`, and one process `mutation-quota gateway`
run. The gateway gets SIGKILL {shortest} to {longest} s after each start. Clients without a client library create
topics, add partitions to most of them and delete most of them. They repeat each step until it is done: after a lost
connection, an error 89 or a missing decision they send the same request again. Afterwards these checks are made:

- Each existing topic and its number of partitions were admitted. Each completed step was admitted, and deleted topics
  do not exist.
- No added partition and no deletion is charged twice: a restarted gateway requests decisions with the ids of its
  predecessor, so the job recognizes the request and admits it again for free. A creation cannot be recognized, because
  before the topic exists a second request looks like the next creation of the same name. Such double charges are
  counted and allowed ([restarts](../../how-to/gateway.md#several-gateways-and-restarts)).
- No call waited longer than the client's time limit of {limit:.0f} s, and the gateway logged no unexpected
  error.
"""


def figures(report: Report) -> Table:
    """Return what happened, as a table."""
    steps = report.steps
    rows = [
        ("kills", report.kills),
        ("concurrent clients", len(report.tallies)),
        ("calls", report.total("calls")),
        ("calls lost with a broken connection", report.total("broken")),
        ("calls refused with error 89", report.total("throttled")),
        ("calls answered with error 7", report.total("undecided")),
        (
            "topics created, extended, deleted",
            ", ".join(f"{steps[each]:,}" for each in ("created", "grown", "deleted")),
        ),
        ("steps found done by a retry", report.total("found_done")),
        ("decisions", report.decisions),
        ("repeats admitted for free", report.repeats.total()),
        ("creations charged twice", report.paid_twice[Operation.CREATE_TOPICS.name]),
        ("longest call, ms", max(each.longest_ms for each in report.tallies)),
        ("violations", len(report.wrong)),
    ]
    drawn = tuple((name, value if isinstance(value, str) else f"{value:,}") for name, value in rows)
    return Table("A gateway that is killed under load", ("", ""), drawn, words=1)


def page(report: Report, plan: Plan) -> str:
    """Return the page."""
    shortest, longest = plan.between
    method = _METHOD.format(window=REPEATS_SECONDS, shortest=shortest, longest=longest, limit=LIMIT_MS / 1000)
    today = time.strftime("%Y-%m-%d", time.gmtime())
    wrong = "".join(f"- {each}\n" for each in report.wrong)
    return f"""\
# The gateway, killed under load

`make gateway-kills` repeats this experiment and writes this page. Last run on {today}, with `--seed {plan.seed}`:

{figures(report).markdown()}

{wrong}
## Method and checks

{method}
{versions("pyspark", "delta-spark", "confluent-kafka")}.
"""
