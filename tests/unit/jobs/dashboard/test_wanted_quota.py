"""The command that sets a quota which was tried out."""

import pytest

from jobs.dashboard.wanted_quota import WantedQuota
from quota.records.entity import QuotaEntity
from quota.records.quota import Quota

ALTER = "mutation-quota quotas alter"


@pytest.mark.parametrize(
    ("entity", "options"),
    [
        (QuotaEntity("alice"), "--user=alice"),
        (QuotaEntity(None), "--user-defaults"),
        (QuotaEntity("O=Acme; rm -r", None), "'--user=O=Acme; rm -r' --client-defaults"),
        (QuotaEntity(client_id="-x"), "--client=-x"),
    ],
)
def test_the_entity_is_quoted_for_a_shell(entity, options):
    assert WantedQuota(entity, 5).command(None) == f"{ALTER} {options} --add-config controller_mutation_rate=5"


def test_a_burst_that_is_not_wanted_is_deleted_if_it_is_set():
    wanted = WantedQuota(QuotaEntity("alice"), 5)
    with_burst = f"{ALTER} --user=alice --add-config controller_mutation_rate=5"
    assert wanted.command(Quota(1.0)) == with_burst
    assert wanted.command(Quota(1.0, 200.0)) == f"{with_burst} --delete-config controller_mutation_burst"


def test_a_quota_is_removed_only_if_there_is_one():
    wanted = WantedQuota(QuotaEntity("alice"), None)
    assert wanted.command(Quota(1.0)) == f"{ALTER} --user=alice --delete-config controller_mutation_rate"
    assert wanted.command(None) is None
