"""Recommended quotas with their backtest, and as a file."""

import pytest

from quota.records.entity import QuotaEntity
from quota.records.quota import Window
from quota.timeline.quota_file import read_quota_file, write_quota_file
from quota.whatif.advice import make_advice
from quota.whatif.recommendation import Demand, SizingInput, Tenancy, divide_capacity
from quota.whatif.result import CandidateOutcome, Result, Sender, Totals


def load(admitted, refused=0, seconds=0.0, peak=0):
    return Totals(1, 0, admitted, refused, seconds, 0, 0, peak)


def outcome(name, together, *senders):
    return CandidateOutcome(name, together, [Sender(*each) for each in senders])


BEFORE = outcome(
    "as recorded",
    load(210, 40, peak=120),
    ("etl", "a", load(100, 10, 1.0)),
    ("etl", "b", load(60, 30, 1.5)),
    ("app", "a", load(20)),
    ("admin", "a", load(30, 9)),  # before it was exempt
)
AFTER = outcome(
    "recommended",
    load(240, 10, peak=90),
    ("etl", "a", load(105, 5, 0.5)),
    ("etl", "b", load(85, 5, 0.75)),
    ("app", "a", load(20)),
    ("admin", "a", load(30)),
)


@pytest.fixture
def advice():
    """Return the advice on 80 for needs of 17 and 1."""
    demands = [Demand(QuotaEntity("etl"), 200, 22, 17.0, 17.0), Demand(QuotaEntity("app"), 20, 22, 1.0, 1.0)]
    found = divide_capacity(demands, 18.0, SizingInput(100.0, 0.2, 1.0, Window()))
    return make_advice(found, Result(None, [BEFORE, AFTER]), Tenancy.USER, frozenset({"admin"}), Window())


def test_the_senders_of_a_tenant_are_reported_together(advice):
    etl, app = advice.tenants
    assert etl.share.demand.entity == QuotaEntity("etl")
    assert (etl.outlook.refused, etl.outlook.refused_before, etl.outlook.throttled_seconds) == (10, 40, 1.25)
    assert (app.outlook.refused, app.outlook.refused_before) == (0, 0)


def test_exempt_users_do_not_belong_to_a_tenant():
    demand = Demand(QuotaEntity(client_id="a"), 110, 22, 1.0, 1.0)
    found = divide_capacity([demand], 1.0, SizingInput(100.0, 0.2, 1.0, Window()))
    result = Result(None, [BEFORE, AFTER])
    (client,) = make_advice(found, result, Tenancy.CLIENT, frozenset({"admin"}), Window()).tenants
    assert (client.outlook.refused, client.outlook.refused_before) == (5, 10)


def test_consequences_include_all_requests_also_exempt_ones(advice):
    assert (advice.before.peak, advice.after.peak) == (120, 90)
    assert advice.refused_share == 10 / 250


def test_quotas_are_summed_up_with_all_tenants_of_the_default(advice):
    """9 is the median need, and so app's, etl's is 17: 35 are claimed of 80."""
    assert [each.share.quota for each in advice.tenants] == [38.9, 20.6]  # 38.857 and 20.571
    assert (advice.default, advice.quotas_sum) == (20.6, pytest.approx(20.6 + 38.9 + 20.6))
    assert advice.largest_burst == pytest.approx(38.9 * 11)


def test_the_file_has_the_default_and_larger_quotas_with_their_numbers(advice):
    records = read_quota_file(write_quota_file(advice.quotas).encode(), "quotas.yaml")
    assert records == advice.quotas
    default, etl = records
    assert (default.entity, default.controller_mutation_rate) == (QuotaEntity(None), 20.6)
    assert default.comment == "for all others: median need 9/s"
    assert (etl.entity, etl.controller_mutation_rate) == (QuotaEntity("etl"), 38.9)
    assert etl.comment == "need 17/s; 10 of 200 mutations refused in the backtest"
