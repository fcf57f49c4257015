"""The division of a capacity among tenants: calculated by hand, by the rules of docs/how-to/recommend.md."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from quota.algorithms.token_bucket import TokenBucket
from quota.planning.quota_file import read_quota_file, write_quota_file
from quota.records.decision import Outcome
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Window
from quota.whatif.effects import CandidateOutcome, Sender, Totals
from quota.whatif.evaluation import Result
from quota.whatif.recommendation import Demand, SizingInput, Tenancy, divide_capacity, make_advice
from quota.whatif.required_quota import RequiredQuota
from tests.support.factories import decide_all, resolved


def demand(user, need, load=None, *, requested=100, largest=11):
    """A request of 11 mutations is the burst of a quota of 1."""
    return Demand(QuotaEntity(user), requested, largest, need, need if load is None else load, largest)


def divided(*demands, capacity=100.0, together=None, reserve=0.2, over_allocation=1.0):
    loads = sum(share.load for share in demands)
    ground = SizingInput(capacity, reserve, over_allocation, Window())
    return divide_capacity(demands, loads if together is None else together, ground)


def quotas(recommendation):
    own = {share.demand.entity.user: share.quota for share in recommendation.shares}
    return recommendation.default, own


def test_spare_capacity_is_shared_in_proportion_to_needs():
    """80 are available. 2 is the median need, for the default and for smaller needs: 2, 2, 2 and 3 are claimed."""
    recommendation = divided(demand("a", 1), demand("b", 2), demand("c", 3))
    assert (recommendation.rules.claims, recommendation.rules.headroom) == (9, pytest.approx(80 / 9))
    assert quotas(recommendation) == (17.8, {"a": 17.8, "b": 17.8, "c": 26.7})  # 17.77… and 26.66… rounded up
    # Only tenants above the default get their own quota.
    assert [(share.demand.entity.user, share.own) for share in recommendation.shares] == [
        ("a", False),
        ("b", False),
        ("c", True),
    ]


def test_if_scarce_small_tenants_get_their_needs_and_large_ones_an_even_share():
    """The default and three tenants claim 4 each, which leaves 64 of 80 for two."""
    recommendation = divided(demand("a", 1), demand("b", 4), demand("c", 4), demand("d", 50), demand("e", 90))
    assert (recommendation.rules.headroom, recommendation.rules.most) == (None, 32.0)
    assert quotas(recommendation) == (4.0, {"a": 4.0, "b": 4.0, "c": 4.0, "d": 32.0, "e": 32.0})


@pytest.mark.parametrize(("need", "claims"), [(9, 12), (500, 83)])
def test_no_tenant_gets_or_claims_more_than_is_available_and_others_get_the_rest(need, claims):
    """240 for claims of 1, 1, 1 and 9: 20 times 9 is more than 80, so 160 are left for three. 500 count as 80."""
    recommendation = divided(demand("a", 1), demand("b", 1), demand("c", need), over_allocation=3.0)
    assert (recommendation.rules.budget, recommendation.rules.claims) == (240.0, claims)
    assert quotas(recommendation) == (53.4, {"a": 53.4, "b": 53.4, "c": 80.0})


def test_the_reserve_is_not_available():
    recommendation = divided(demand("a", 1), capacity=300.0, reserve=0.25, over_allocation=1.5)
    assert (recommendation.rules.available, recommendation.rules.budget) == (225.0, 337.5)


def test_over_allocation_is_measured_by_how_little_tenants_act_at_once():
    """Loads of 2, 3 and 7 that sum up to 8 at the same time: half as much again can be allocated."""
    demands = [demand("a", 1, 2), demand("b", 1, 3), demand("c", 6, 7)]
    rules = divided(*demands, together=8.0, over_allocation=None).rules
    assert (rules.over_allocation, rules.measured, rules.budget) == (1.5, True, 120.0)
    rules = divided(*demands, together=8.0, over_allocation=1.25).rules  # a given one is not measured
    assert (rules.over_allocation, rules.measured) == (1.25, False)


def test_a_tenant_without_needs_gets_enough_for_a_typical_request():
    """One topic was overdrawn, which every quota lets happen. The median of the largest requests is 33: 3 in 11 s."""
    demands = [demand(name, 0, 1, largest=largest) for name, largest in (("a", 11), ("b", 33), ("c", 330))]
    recommendation = divided(*demands, capacity=30.0)
    assert recommendation.rules.least == 3.0
    assert quotas(recommendation) == (6.0, {"a": 6.0, "b": 6.0, "c": 6.0})  # 24 for four


def test_a_single_tenant_shares_with_the_default():
    assert quotas(divided(demand("a", 7))) == (40.0, {"a": 40.0})


@pytest.mark.parametrize(
    ("half", "quota"),
    [(0.3, 0.3), (100.1, 101), (1240, 1240), (0.01234, 0.0124), (999.1, 1000)],
)
def test_quotas_are_rounded_up_to_three_digits(half, quota):
    recommendation = divided(demand("a", 0.001, largest=0.011), capacity=2 * half, reserve=0.0)
    assert quotas(recommendation) == (quota, {"a": quota})


def test_tenants_that_requested_most_come_first():
    recommendation = divided(demand("a", 1, requested=5), demand("b", 1, requested=7), demand("c", 1, requested=5))
    assert [share.demand.entity.user for share in recommendation.shares] == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("tenancy", "entity", "default"),
    [
        (Tenancy.USER, QuotaEntity("u"), QuotaEntity(None)),
        (Tenancy.CLIENT, QuotaEntity(client_id="c"), QuotaEntity(client_id=None)),
        (Tenancy.USER_CLIENT, QuotaEntity("u", "c"), QuotaEntity(None, None)),
    ],
)
def test_a_tenant_is_the_owner_of_a_bucket(tenancy, entity, default):
    assert (tenancy.entity("u", "c"), tenancy.default) == (entity, default)


def load(admitted, rejected=0, seconds=0.0, peak=0):
    return Totals(1, 0, admitted, rejected, seconds, 0, 0, peak)


def outcome(name, together, *senders):
    return CandidateOutcome(name, together, [Sender(*sender) for sender in senders])


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
    demands = [Demand(QuotaEntity("etl"), 200, 22, 17.0, 17.0, 20), Demand(QuotaEntity("app"), 20, 22, 1.0, 1.0, 11)]
    recommendation = divide_capacity(demands, 18.0, SizingInput(100.0, 0.2, 1.0, Window()))
    return make_advice(recommendation, Result(None, [BEFORE, AFTER]), Tenancy.USER, frozenset({"admin"}), Window())


def test_the_proposed_limit_of_a_topic_rejects_neither_what_was_recorded_nor_what_a_full_bucket_pays_for():
    """The bursts are 11 * 17.8 = 195.8 and 11 * 26.7 = 293.7; the largest topic of those with the default has 200."""
    demands = [replace(demand("a", 1), largest_topic=200), demand("b", 2), replace(demand("c", 3), largest_topic=290)]
    recommendation = divided(*demands)
    nothing = outcome("nothing", load(0), *((user, "a", load(0)) for user in "abc"))
    advice = make_advice(recommendation, Result(None, [nothing] * 2), Tenancy.USER, frozenset(), Window())
    assert (advice.topic_limit, [share.topic_limit for share in recommendation.shares]) == (
        200,
        [200, 196, 294],
    )


def test_the_senders_of_a_tenant_are_reported_together(advice):
    etl, app = advice.tenants
    assert etl.share.demand.entity == QuotaEntity("etl")
    assert (etl.outlook.rejected, etl.outlook.rejected_before, etl.outlook.throttled_seconds) == (10, 40, 1.25)
    assert (app.outlook.rejected, app.outlook.rejected_before) == (0, 0)


def test_exempt_users_do_not_belong_to_a_tenant():
    demand = Demand(QuotaEntity(client_id="a"), 110, 22, 1.0, 1.0, 11)
    recommendation = divide_capacity([demand], 1.0, SizingInput(100.0, 0.2, 1.0, Window()))
    result = Result(None, [BEFORE, AFTER])
    (client,) = make_advice(recommendation, result, Tenancy.CLIENT, frozenset({"admin"}), Window()).tenants
    assert (client.outlook.rejected, client.outlook.rejected_before) == (5, 10)


def test_consequences_include_all_requests_also_exempt_ones(advice):
    assert (advice.before.peak, advice.after.peak) == (120, 90)
    assert advice.rejected_share == 10 / 250


def test_quotas_are_summed_up_with_all_tenants_of_the_default(advice):
    """9 is the median need, and so app's, etl's is 17: 35 are claimed of 80."""
    assert [tenant.share.quota for tenant in advice.tenants] == [38.9, 20.6]  # 38.857 and 20.571
    assert (advice.default, advice.quotas_sum) == (20.6, pytest.approx(20.6 + 38.9 + 20.6))
    assert advice.largest_burst == pytest.approx(38.9 * 11)


def test_the_file_has_the_default_and_larger_quotas_with_their_numbers(advice):
    records = read_quota_file(write_quota_file(advice.quotas).encode(), "quotas.yaml")
    assert records == advice.quotas
    default, etl = records
    assert (default.entity, default.controller_mutation_rate) == (QuotaEntity(None), 20.6)
    assert default.comment == "for all others: median need 9/s"
    assert (etl.entity, etl.controller_mutation_rate) == (QuotaEntity("etl"), 38.9)
    assert etl.comment == "need 17/s; 10 of 200 mutations rejected in the backtest"


WINDOW = Window()
"""S * W is 11 s."""


def need(*requests, window=WINDOW):
    """Return the needed quota of requests: a time in ms, and the mutations of each topic."""
    required = RequiredQuota(window)
    for at, *charges in requests:
        required.add(at, charges)
    return required


@pytest.mark.parametrize(
    ("requests", "rate", "load"),
    [
        ([(0, 66)], 0, 6),  # one topic may overdraw; 66 are what 11 s of 6 hold
        ([(0, 66, 11)], 6, 7),  # before the second topic 66 are charged
        ([(0, 55), (1000, 17)], 55 / 12, 6),  # 11 s of burst and one of gain: 55 before the second, 72 after it
        ([(0, 22), (1_000_000, 33)], 22 / 1011, 3),  # long paid by then; the second alone is 33 in 11 s
        ([(0, 1), (100_000, 44), (101_000, 16)], 44 / 12, 5),  # the stretch that counts begins with the second
        ([(0, 44), (0, 33), (0, 22)], 7, 9),  # at one moment: before the last there are 77
        ([(5000, 24), (4000, 24), (6000, 1)], 4, 48 / 11),  # time never runs backwards: 5,000, 5,000, 6,000
        ([(0, 66), (0, 0)], 6, 6),  # what costs nothing is rejected in debt, too
        ([(0,)], 0, 0),
        ([(0, 0), (1000, 0)], 0, 0),
    ],
)
def test_the_required_quota_matches_examples_by_hand(requests, rate, load):
    required = need(*requests)
    assert (required.no_rejection, required.no_debt) == (pytest.approx(rate), pytest.approx(load))


def test_requested_mutations_are_counted():
    required = need((0, 5, 6), (0,), (7, 9))
    assert (required.charged, required.largest) == (20, 11)


courses = st.lists(
    st.tuples(st.integers(0, 3_000) | st.integers(0, 10_000_000), st.lists(st.integers(0, 50), min_size=1, max_size=3)),
    min_size=1,
    max_size=30,
).map(lambda course: list(timed(course)))


def timed(course):
    now = 0
    for gap, charges in course:
        now += gap
        yield now, charges


def outcomes(course, rate):
    requests = [resolved(*charges, at=at, rate=rate, offset=number) for number, (at, charges) in enumerate(course)]
    return {decision.outcome for decision in decide_all(*requests, algorithm=TokenBucket(WINDOW))[1]}


@given(courses)
def test_with_it_the_bucket_rejects_nothing_and_with_less_it_rejects(course):
    rate = need(*((at, *charges) for at, charges in course)).no_rejection
    assume(rate > 0)
    assert outcomes(course, rate * (1 + 1e-6)) == {Outcome.ADMITTED}
    assert outcomes(course, rate * (1 - 1e-3)) != {Outcome.ADMITTED}


@given(courses)
def test_with_its_load_the_bucket_is_never_in_debt(course):
    load = need(*((at, *charges) for at, charges in course)).no_debt
    assume(load > 0)

    def lowest(rate):
        requests = [resolved(*charges, at=at, rate=rate, offset=number) for number, (at, charges) in enumerate(course)]
        return min(decision.tokens for decision in decide_all(*requests, algorithm=TokenBucket(WINDOW))[1])

    assert lowest(load * (1 + 1e-6)) >= 0
    assert lowest(load * (1 - 1e-3)) < 0
