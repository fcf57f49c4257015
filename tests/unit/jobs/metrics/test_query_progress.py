"""Spark's report of a batch; the JSON is from a run, shortened."""

from jobs.metrics.query_progress import QueryProgress

PROGRESS = {
    "batchId": 41,
    "timestamp": "2026-11-22T04:00:00.250Z",
    "durationMs": {"addBatch": 98, "latestOffset": 3, "triggerExecution": 130},
    "stateOperators": [{"numRowsTotal": 7, "memoryUsedBytes": 1000}, {"numRowsTotal": 2, "memoryUsedBytes": 24}],
    "sources": [
        {"startOffset": {"requests": {"0": 3}}, "endOffset": {"requests": {"0": 5, "1": 9}, "requests.bob": {"0": 1}}}
    ],
}
ENDED_AT = 1_795_320_000.38
"""2026-11-22T04:00:00Z, 250 ms, and the 130 that the batch took."""


def test_a_batch_is_read():
    progress = QueryProgress.read(PROGRESS)
    assert progress.batch == 41
    assert round(progress.ended_at, 3) == ENDED_AT
    assert progress.phases == {"addBatch": 0.098, "latestOffset": 0.003, "triggerExecution": 0.13}
    assert progress.positions == {("requests", 0): 5, ("requests", 1): 9, ("requests.bob", 0): 1}
    assert (progress.state_rows, progress.state_bytes) == (9, 1024)


def test_a_query_without_state_reports_none_and_what_has_read_no_topic_has_no_position():
    table = {"sourceVersion": 1, "reservoirId": "5ba3", "reservoirVersion": 7, "index": -1, "isStartingVersion": False}
    sources = [{"startOffset": None, "endOffset": None}, {"endOffset": table}]
    progress = QueryProgress.read({**PROGRESS, "stateOperators": [], "sources": sources})
    assert (progress.state_rows, progress.state_bytes, progress.positions) == (None, None, {})


def test_the_lag_counts_the_records_after_the_batch():
    """One partition has two more, another none, as its end is older; the end of a third is unknown, and one is new."""
    progress = QueryProgress.read(PROGRESS)
    assert progress.lag({("requests", 0): 7, ("requests", 1): 1, ("requests", 2): 50}) == 2
