"""A storm: many applications, low quotas, and an applier that is killed repeatedly."""

import pytest

from jobs.enforce.query import start_enforce
from jobs.storage.run import Run
from quota.kafka.quotas.writer import write_record
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from tests.integration.clients.storm import Storm
from tests.support.deployment import with_sections
from tests.support.programs import running_applier


@pytest.fixture
def enforcing(spark, deployment):
    """The job at work on a deployment whose clients leave the carrying out to an applier."""
    settings = with_sections(deployment, client={"applied_by": "applier"})
    prepare_topics(settings)
    write_record(settings, QuotaRecord(QuotaEntity(None), 3.0))
    query = start_enforce(Run.on(spark, settings))
    yield settings
    query.stop()


@pytest.mark.parametrize(
    ("seconds", "applications", "threads", "kills"),
    [(5, 2, 16, 2), pytest.param(60, 10, 40, 30, marks=pytest.mark.nightly)],
)
def test_a_storm_with_an_applier_that_is_killed(enforcing, seconds, applications, threads, kills):
    """Nothing is created without admission or twice, nothing is missing, and each client gets its result."""
    with running_applier(enforcing, kills):
        outcomes, wrong = Storm(enforcing, applications, threads).rage(seconds)
    assert wrong == []
    assert outcomes["done"]
    assert outcomes["rejected"]
