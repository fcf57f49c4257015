"""The metrics of answers, which also follow the quota log."""

from unittest.mock import Mock

import pytest

from jobs.metrics import collector
from jobs.metrics.collector import AnswerMetrics
from quota.records.quota_log import Cluster, ClusterRecord
from quota.settings import load_settings

METADATA = "mutation_quota_callback_metadata_timestamp_seconds"


class Log:
    """A quota log of records (key, timestamp), of which the newest are read."""

    def __init__(self, monkeypatch):
        self.records = []
        monkeypatch.setattr(collector, "AnswerReader", Mock(return_value=Mock(read=lambda _: [])))
        monkeypatch.setattr(collector, "TopicAdmin", lambda *_: Mock(offsets=lambda of: {of[0]: len(self.records)}))
        monkeypatch.setattr(collector, "Every", lambda _: Mock(is_due=lambda: True))
        monkeypatch.setattr(collector, "read_topic", self._read)

    def _read(self, _connection, _topic, _seconds, newest):
        for key, at in self.records[-newest:]:
            yield Mock(key=lambda key=key: key, timestamp=lambda at=at: (2, at))


@pytest.mark.parametrize("classes", ["[]", '["our.Callback"]'])
def test_the_time_of_a_callbacks_metadata_is_that_of_the_newest_record(monkeypatch, classes):
    log, cluster = Log(monkeypatch), ClusterRecord(Cluster({"a": [1]})).key
    metrics = AnswerMetrics(
        load_settings([f"quota.callback_classes={classes}"], environment={}, with_default_file=False)
    )

    def published_at():
        metrics.poll()
        return {family.name: family.samples[0].value for family in metrics.families() if family.samples}.get(METADATA)

    assert published_at() is None
    log.records += [(b"alice", 1000), (cluster, 2000), (b"bob", 3000)]
    assert published_at() == (2.0 if "our" in classes else None)
    log.records += [(b"alice", 4000)]
    assert published_at() == (2.0 if "our" in classes else None)
    log.records += [(cluster, 5000), *[(b"alice", 6000)] * 60]
    assert published_at() == (5.0 if "our" in classes else None)
