"""The README's explanation is what `explain` prints at 80 columns for such a rejection; `…` stands for other lines."""

import re

from jobs.cli.output import fill
from quota.algorithms.token_bucket import TokenBucket
from quota.explanation.explanation import explain
from quota.explanation.explanation_text import explanation_lines
from quota.records.entity import QuotaEntity
from quota.records.levels import ResolvedRequest
from quota.records.quota_log import Window
from quota.records.request import read_request
from tests.support.checkout import CHECKOUT
from tests.support.factories import decide_all, record, request_json, timeline

ANYBODY = QuotaEntity("ANONYMOUS", None)
CLIENT = "adminclient-1"
"""The client-id of kafka-topics.sh."""
SET, FIRST, SECOND = 1_795_579_128_670, 1_795_579_131_915, 1_795_579_136_326
"""The times at which the quota was set and topics were requested, on 2026-11-25 from 03:58:48.670Z [epoch ms]."""


def resolved(partitions, name, at, offset):
    value = request_json(user="ANONYMOUS", client_id=CLIENT, topics=[{"name": name, "partitions": partitions}])
    resolution = timeline((ANYBODY, 1.0, SET)).resolve("ANONYMOUS", CLIENT, at)
    return ResolvedRequest(record(value, offset, at), read_request(value), resolution)


def test_the_readme_shows_what_explain_prints():
    requests = [resolved(60, "clicks", FIRST, 1119), resolved(6, "visits", SECOND, 1157)]
    _, (_, rejected) = decide_all(*requests, algorithm=TokenBucket(Window()))
    explanation = explain(rejected)
    printed = "".join(f"{fill(text, '', ' ' * indent)}\n" for text, indent in explanation_lines(explanation, SECOND))

    (shown,) = re.findall(r"```text\n(Creating topic .*?)```", (CHECKOUT / "README.md").read_text(), re.DOTALL)
    parts = [re.escape(part) for part in shown.split("  …\n")]
    assert re.fullmatch("(?:.+\n)+".join(parts), printed), printed
