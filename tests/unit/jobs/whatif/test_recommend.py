"""Quotas recommended from tables of the audit: measured, divided, decided, and printed."""

import json

import pytest

from jobs.whatif.demands import measure_demands
from jobs.whatif.recommend import recommend
from jobs.whatif.recorded import open_requests
from quota.errors import MutationQuotaError
from quota.records.entity import QuotaEntity
from quota.records.quota import Window
from quota.timeline.quota_file import read_quota_file
from quota.whatif.recommendation import SizingInput, Tenancy
from tests.support.audited import audited
from tests.support.deployment import set_options, with_sections
from tests.support.factories import START
from tests.support.programs import run
from tests.support.recommended import ALICE, BOB, GROUND, REQUESTS


@pytest.fixture(scope="module")
def settings(base_settings, tmp_path_factory):
    """A deployment whose audit has the decisions on these requests, by 1/s for alice: 50 overdraw 11."""
    quotas = [{"entity": {"user": "alice"}, "controller_mutation_rate": 1}]
    return audited(base_settings, tmp_path_factory.mktemp("root"), REQUESTS, quotas, start=START)


def measured(settings, tenancy, since=None, until=None):
    with open_requests(settings, "recommend", (since, until)) as engine:
        demands, together = measure_demands(engine, tenancy, frozenset({"admin"}), Window())
    needs = {demand.entity: (demand.mutations, demand.largest, demand.need, demand.load) for demand in demands}
    return needs, together


def test_needs_are_computed_from_charged_requests(settings):
    """At 1/s only alice's first topic was admitted: her repeat pays for the second, and 11 more are rejected."""
    needs, together = measured(settings, Tenancy.USER)
    assert needs == {
        ALICE: (50 + 5 + 5 + 11, 55, pytest.approx(60 / 12), pytest.approx(71 / 12)),
        BOB: (22, 22, 0, pytest.approx(2)),
    }
    assert together == pytest.approx(93 / 13)


def test_tenants_can_be_distinguished_by_other_tags(settings):
    clients, together = measured(settings, Tenancy.CLIENT)
    assert clients[QuotaEntity(client_id="b")] == (33, 22, pytest.approx(11 / 12), pytest.approx(33 / 12))
    both, same = measured(settings, Tenancy.USER_CLIENT)
    assert set(both) == {QuotaEntity("alice", "a"), QuotaEntity("alice", "b"), QuotaEntity("bob", "b")}
    assert together == same


def test_requests_outside_the_period_do_not_count(settings):
    needs, _ = measured(settings, Tenancy.USER, since=START + 1000, until=START + 2000)
    assert needs == {ALICE: (11, 11, 0, pytest.approx(1))}


def test_consequences_are_decided_by_the_quotas_themselves(settings):
    advice = recommend(settings, GROUND, Tenancy.USER)
    assert advice.before_name == "as recorded"
    assert (advice.before.rejected, advice.after.rejected) == (5 + 5 + 11, 0)
    assert advice.after.admitted == 55 + 11 + 22 + 99  # all of her first, so her repeat pays nothing; and admin's
    assert [tenant.outlook.rejected_before for tenant in advice.tenants] == [5 + 5 + 11, 0]


def test_requests_in_shadow_are_decided_as_enforced(settings):
    shadow = with_sections(settings, quota={"shadow": True})
    narrow = SizingInput(capacity=1.0, reserve=0.0, over_allocation=None, window=Window())
    in_shadow, enforced = (recommend(each, narrow, Tenancy.USER).after for each in (shadow, settings))
    assert in_shadow == enforced
    assert enforced.rejected == 5 + 5 + 11  # at a third of 1/s only her first topic is admitted


@pytest.mark.parametrize(
    ("since", "until", "message"),
    [
        (None, START, "there are no decisions to replay: the table has none in that period"),
        (START + 3000, None, "the table has no charged requests in that period"),  # exempt, or not charged
    ],
)
def test_a_period_without_charges_is_reported(settings, since, until, message):
    with pytest.raises(MutationQuotaError, match=message):
        recommend(settings, GROUND, Tenancy.USER, (since, until))


def test_the_command_recommends_quotas_in_a_file_for_apply(settings, tmp_path):
    """Alice needs 5; the least claim is 38.5 in 11 s, from requests of 55 and 22. So 12 are claimed of 44.3.

    The loads sum up to 7.92, but to 7.15 at once: 40 * 7.92 / 7.15.
    """
    file = tmp_path / "quotas.yaml"
    given = [f"storage.root={settings.storage.root}", "quota.exempt_users=admin", "repeats.window_seconds=1"]
    options = [*set_options(*given), "--output-file", str(file), "--output", "json", "--capacity", "50"]
    done = run("recommend", *options)
    assert done.returncode == 0, done.stderr
    advice = json.loads(done.stdout)
    assert advice["rules"]["available"] == 40
    records = read_quota_file(file.read_bytes(), "quotas.yaml")
    rates = [(record.entity, record.controller_mutation_rate) for record in records]
    assert rates == [(QuotaEntity(None), 13.0), (ALICE, 18.5)]
    assert records[-1].comment
    assert [quota["entity"] for quota in advice["quotas"]] == [{"user": None}, {"user": "alice"}]
