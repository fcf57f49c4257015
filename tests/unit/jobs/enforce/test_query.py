"""The producer settings by which decisions are written."""

from jobs.enforce.query import sink_options
from quota.settings import load_settings


def test_an_answer_is_acknowledged_by_all_replicas_and_a_retry_writes_it_once():
    options = sink_options(load_settings([], environment={}, with_default_file=False))
    assert (options["kafka.acks"], options["kafka.enable.idempotence"]) == ("all", "true")
