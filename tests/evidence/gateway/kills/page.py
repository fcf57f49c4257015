"""The page docs/evidence/gateway/gateway-kills.md."""

import time

from quota.records.request import Operation
from tests.evidence.gateway.kills.clients import LIMIT_MS
from tests.evidence.gateway.kills.run import REPEATS_SECONDS, Plan
from tests.evidence.gateway.kills.verdict import Report
from tests.evidence.pages import Table, versions

_METHOD = """\
A broker, `mutation-quota enforce` with `repeats.window_seconds={window:.0f}`, and one process
`mutation-quota gateway`, which gets SIGKILL {shortest} to {longest} s after each start. Clients, without a library,
create topics, grow most of them and delete most of them, each step until it is done: after a lost connection, an
error 89 or no decision they send the same request again. Afterwards:

- Each topic that stands was admitted, and so was its number of partitions. Each step that is done was admitted, and a
  topic that was deleted is gone.
- No growth and no deletion is charged twice: a gateway that is started again asks with the id of its predecessor, so
  that the job knows the request, and admits it once more for free. A creation cannot be known again, since one that is
  not there yet looks like the next of the same name: those are counted, and allowed
  ([a gateway that ends](../../how-to/gateway.md#several-gateways-and-restarts)).
- No call has waited longer than the client's own time limit of {limit:.0f} s; the gateway has logged no unexpected
  error.
"""


def figures(report: Report) -> Table:
    """Return what happened, as a table."""
    steps = report.steps
    rows = [
        ("kills", report.kills),
        ("clients at a time", len(report.tallies)),
        ("calls", report.total("calls")),
        ("calls lost with their connection", report.total("broken")),
        ("calls refused with error 89", report.total("throttled")),
        ("calls answered with error 7", report.total("undecided")),
        ("topics created, grown, deleted", ", ".join(f"{steps[each]:,}" for each in ("created", "grown", "deleted"))),
        ("steps found done when they were tried again", report.total("found_done")),
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
    wrong = "".join(f"- {each}\n" for each in report.wrong)
    return f"""\
# The gateway, killed under load

Written by `make gateway-kills`, which does it again. Last on {time.strftime("%Y-%m-%d", time.gmtime())}, with \
`--seed {plan.seed}`:

{figures(report).markdown()}

{wrong}
## What is done and what is checked

{method}
{versions("pyspark", "delta-spark", "confluent-kafka")}.
"""
