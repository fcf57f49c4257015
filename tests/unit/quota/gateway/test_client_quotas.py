"""Requests for client quotas: what the brokers get, what the quota log gets, and the one response."""

import math

import pytest

from quota.gateway.client_quotas import RatesCall, RatesReply, alter_quotas, alters_rates, describe_quotas
from quota.gateway.operations import BrokerCall
from quota.gateway.stats import GatewayStats
from quota.records.entity import QuotaEntity

RATE, BYTES = "controller_mutation_rate", "producer_byte_rate"
ALL = {"components": [], "strict": False}
ALICE, BOB = QuotaEntity("alice"), QuotaEntity("bob")


def parts(**names):
    return [{"entityType": kind.replace("_", "-"), "entityName": name} for kind, name in names.items()]


def sets(key, value):
    return {"key": key, "value": value, "remove": False}


def removes(key):
    return {"key": key, "value": 0.0, "remove": True}


def altered(*entries, validate_only=False):
    return {"entries": [{"entity": entity, "ops": ops} for entity, ops in entries], "validateOnly": validate_only}


def results(*of, code=0, message=None):
    return [{"errorCode": code, "errorMessage": message, "entity": entity} for entity in of]


def response(entries, throttle_ms=0):
    return {"throttleTimeMs": throttle_ms, "entries": entries}


def described(*quotas, throttle_ms=0):
    """Return a broker's response: entities as parts, each with its values by key."""
    entries = [
        {"entity": entity, "values": [{"key": key, "value": value} for key, value in values.items()]}
        for entity, values in quotas
    ]
    return {"throttleTimeMs": throttle_ms, "errorCode": 0, "errorMessage": "", "entries": entries}


class Flow:
    """A request that is played step by step: `step` is what it waits for, `response` what the client gets."""

    def __init__(self, steps):
        self._steps, self.response = steps, None
        self.step = next(steps)

    def reply(self, message):
        """Reply to the step, and return the next one; None if the client gets its response."""
        try:
            self.step = self._steps.send(message)
        except StopIteration as ended:
            self.step, self.response = None, ended.value.message
        return self.step


def altering(*entries, validate_only=False):
    return Flow(alter_quotas(1, altered(*entries, validate_only=validate_only), "ann"))


def describing():
    return Flow(describe_quotas(1, ALL, GatewayStats()))


def test_a_request_is_split_once_the_brokers_have_validated_it():
    """The rate is in the log before brokers change anything; they remove the rate, and set the rest."""
    flow = altering(
        (parts(user="alice"), [sets(RATE, 5.0), sets(BYTES, 1024.0)]),
        (parts(client_id=None, user="bob"), [removes(RATE)]),
        (parts(ip="192.0.2.1"), [sets("connection_creation_rate", 7.0)]),
    )
    named = [parts(user="alice"), parts(client_id=None, user="bob"), parts(ip="192.0.2.1")]
    assert flow.step == BrokerCall(
        49,
        1,
        altered(
            (named[0], [sets(RATE, 5.0), sets(BYTES, 1024.0)]),
            (named[1], [removes(RATE)]),
            (named[2], [sets("connection_creation_rate", 7.0)]),
            validate_only=True,
        ),
    )
    assert flow.reply(response(results(*named), 3)) == RatesCall({ALICE: 5.0, QuotaEntity("bob", None): None}, "ann")
    assert flow.reply(RatesReply()) == BrokerCall(
        49,
        1,
        altered(
            (named[0], [removes(RATE), sets(BYTES, 1024.0)]),
            (named[1], [removes(RATE)]),
            (named[2], [sets("connection_creation_rate", 7.0)]),
        ),
    )
    assert flow.reply(response(results(*named), 2)) is None
    assert flow.response == response(results(*named), 3)


def test_an_entity_that_the_brokers_reject_is_not_altered_at_all():
    """A client without permission alters nothing, since the brokers reject all of its entities."""
    entries = [(parts(user="alice"), [sets(RATE, 5.0)]), (parts(user="bob"), [sets(RATE, 6.0)])]
    flow = altering(*entries)
    rejected = results(parts(user="alice"), code=42, message="no")
    assert flow.reply(response(rejected + results(parts(user="bob")))) == RatesCall({BOB: 6.0}, "ann")
    assert flow.reply(RatesReply()).message == altered((parts(user="bob"), [removes(RATE)]))
    flow.reply(response(results(parts(user="bob"))))
    assert flow.response == response(rejected + results(parts(user="bob")))

    flow = altering(*entries)
    rejected = results(parts(user="alice"), parts(user="bob"), code=31, message="Cluster authorization failed.")
    assert flow.reply(response(rejected)) is None
    assert flow.response == response(rejected)


def test_an_entity_named_twice_is_rejected_by_its_parts_in_any_order():
    flow = altering(
        (parts(user="a", client_id="c"), [sets(RATE, 5.0)]), (parts(client_id="c", user="a"), [sets(BYTES, 1.0)])
    )
    rejected = results(parts(client_id="c", user="a"), code=42, message="Ignoring duplicate entity")
    assert flow.reply(response(rejected)) is None
    assert flow.response == response(rejected)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("validate_only", [True, False])
def test_a_value_that_only_brokers_accept_is_rejected(value, validate_only):
    flow = altering((parts(user="alice"), [sets(BYTES, 1.0), sets(RATE, value)]), validate_only=validate_only)
    assert flow.reply(response(results(parts(user="alice")))) is None
    message = "Quota controller_mutation_rate must be a finite number"
    assert flow.response == response(results(parts(user="alice"), code=42, message=message))


@pytest.mark.parametrize("option", ["controller_mutation_burst", "max_debt_ms", "shadow", "max_request_mutations"])
def test_no_option_of_a_quota_can_be_removed_though_brokers_ignore_the_removal(option):
    """They reject one that is set, as an unknown key."""
    flow = altering((parts(user="alice"), [removes(option), sets(RATE, 5.0)]), (parts(user="bob"), [sets(RATE, 6.0)]))
    accepted = results(parts(user="alice"), parts(user="bob"))
    assert flow.reply(response(accepted)) == RatesCall({BOB: 6.0}, "ann")
    assert flow.reply(RatesReply()).message == altered((parts(user="bob"), [removes(RATE)]))
    flow.reply(response(accepted[1:]))
    message = f"{option} can be altered only by mutation-quota quotas alter"
    assert flow.response == response(results(parts(user="alice"), code=42, message=message) + accepted[1:])
    assert alters_rates(altered((parts(user="alice"), [removes(option)])))


def test_an_error_of_the_brokers_after_the_log_is_the_clients():
    """The client retries, and sets the same rate again."""
    flow = altering((parts(user="alice"), [sets(RATE, 5.0)]))
    flow.reply(response(results(parts(user="alice"))))
    flow.reply(RatesReply())
    failed = results(parts(user="alice"), code=41, message="This is not the correct controller for this cluster.")
    flow.reply(response(failed))
    assert flow.response == response(failed)


def test_the_log_and_the_brokers_are_one_response():
    """Rates of the log are added to the brokers' entities, and others follow; the throttle time is the broker's."""
    flow = describing()
    assert flow.step == BrokerCall(48, 1, ALL)
    theirs = described((parts(user="alice"), {BYTES: 1.0}), (parts(ip=None), {"connection_creation_rate": 7.0}))
    assert flow.reply({**theirs, "throttleTimeMs": 9}) == RatesCall()
    flow.reply(RatesReply({ALICE: 5.0, QuotaEntity(client_id=None): 6.0}))
    assert flow.response == described(
        (parts(user="alice"), {BYTES: 1.0, RATE: 5.0}),
        (parts(ip=None), {"connection_creation_rate": 7.0}),
        (parts(client_id=None), {RATE: 6.0}),
        throttle_ms=9,
    )


def test_without_the_log_the_response_is_an_error_and_not_half_of_the_quotas():
    flow = describing()
    flow.reply(described((parts(user="alice"), {BYTES: 1.0})))
    flow.reply(RatesReply(error="no leader"))
    sentence = "controller_mutation_rate is in the quota log, which cannot be read: no leader"
    assert flow.response == {"throttleTimeMs": 0, "errorCode": 7, "errorMessage": sentence, "entries": None}


def test_a_request_without_a_rate_is_relayed_as_it_is(play):
    on = play()
    request = altered((parts(user="alice"), [sets(BYTES, 1.0), removes("request_percentage")]))
    assert on.call(49, 1, request) == response(results(parts(user="alice")))
    assert on.seen == [(49, 1, request)]


def test_a_client_waits_for_the_log_and_its_next_request_with_it(play):
    """The author is the client's principal; a response has the version of the request."""
    on = play()
    on.send(49, 0, altered((parts(user="alice"), [sets(RATE, 5.0)])))
    on.send(48, 0, ALL)
    on.serve()
    assert (on.keys_seen(), on.answers()) == ([49], [])
    assert on.ports.rates_calls == [RatesCall({ALICE: 5.0}, "ANONYMOUS")]
    on.give_rates()
    assert on.answers() == [response(results(parts(user="alice")))]
    on.pass_time(0)
    assert on.ports.rates_calls == [RatesCall()]
    on.give_rates({ALICE: 5.0})
    assert on.answers() == [described((parts(user="alice"), {RATE: 5.0}))]
    assert [version for _, version, _ in on.seen] == [0, 0, 0]
