"""What is logged while a batch is written, without Spark: in a process of its own, since its log stays as it is."""

import json
import subprocess
import sys

PROGRAM = """
import logging
from unittest.mock import MagicMock
from jobs.audit import query
from jobs.spark.log_lines import log_as_json
from quota.settings import load_settings

log_as_json("audit")
upkeep = MagicMock(after_batch=lambda: logging.warning("the upkeep fails"))
query.write_batch(load_settings(environment={}), upkeep, MagicMock(), 7)
logging.warning("between two batches")
"""


def test_it_has_the_query_and_the_batch():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(each["message"], each.get("query"), each.get("batch")) for each in found] == [
        ("the upkeep fails", "audit", 7),
        ("between two batches", None, None),
    ]
