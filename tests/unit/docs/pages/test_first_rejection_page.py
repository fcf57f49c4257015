"""The tutorial's explanation is what `explain` prints at 80 columns for such a rejection."""

import re

from msgspec.structs import replace

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
PAGE = CHECKOUT / "docs" / "tutorial" / "first-rejection.md"
CLIENT = "adminclient-1"
"""The client-id of kafka-topics.sh."""
SET, FIRST, SECOND, ASKED = 1_795_579_110_000, 1_795_579_120_362, 1_795_579_125_503, 1_795_579_133_262
"""The times at which the quota was set, topics were requested and the explanation was, on 2026-11-25 [epoch ms]."""


def resolved(partitions, name, at, offset):
    topics = [{"name": name, "partitions": partitions}]
    value = request_json(
        user="ANONYMOUS", client_id=CLIENT, topics=topics, request_id="gateway-2fea1355c6504fe5b2e1005c68a94f9f"
    )
    resolution = timeline((ANYBODY, 1.0, SET)).resolve("ANONYMOUS", CLIENT, at)
    return ResolvedRequest(record(value, offset, at, partition=1), read_request(value), resolution)


def test_the_tutorial_shows_what_explain_prints():
    requests = [resolved(60, "clicks", FIRST, 24), resolved(6, "visits", SECOND, 26)]
    _, (_, rejected) = decide_all(*requests, algorithm=TokenBucket(Window()))
    explanation = replace(explain(rejected), last_hour={CLIENT: 60})
    printed = "".join(f"{fill(text, '', ' ' * indent)}\n" for text, indent in explanation_lines(explanation, ASKED))
    (shown,) = re.findall(r"```text\n(Creating topic .*?)```", PAGE.read_text(), re.DOTALL)
    assert shown == printed
