"""The first push of a service that follows the log."""

from types import SimpleNamespace

import pytest

from jobs.services import push
from quota.kafka import reading
from quota.kafka.brokers import cluster_quotas
from quota.kafka.brokers.cluster_quotas import UnsetQuotas
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord, Window

ALICE, BOB = QuotaEntity("alice"), QuotaEntity("bob")


@pytest.mark.parametrize("follow", [True, False])
def test_a_quota_that_the_cluster_rejects_ends_a_push_and_is_left_to_the_service_that_follows(
    topic, command, monkeypatch, follow
):
    def reject(rates):
        assert rates == {ALICE: 5.0, BOB: 6.0}
        raise UnsetQuotas("bob is refused", {BOB: "refused"})

    cluster = SimpleNamespace(read=dict, push=reject, connection="k:9092")
    monkeypatch.setattr(cluster_quotas, "ClusterQuotas", lambda *_: cluster)
    monkeypatch.setattr(reading, "read_window", lambda *_: Window())
    had = []
    monkeypatch.setattr(push, "run_push", lambda _settings, _cluster, first, _repair: had.append(first()))
    topic.write([QuotaRecord(ALICE, 5.0), QuotaRecord(BOB, 6.0)])

    printed, errors = command("quotas", "push", "--yes", *["--follow"] * follow, exit_code=0 if follow else 1)

    assert "bob is refused" in errors
    assert ("1 change made" in printed, had) == (follow, [{ALICE: 5.0}] * follow)
