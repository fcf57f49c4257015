"""SASL through a channel: the broker alone decides, and the gateway learns the client's user from what it overhears.

`tests/integration/gateway/test_sasl_oracle.py` compares thousands of exchanges that are nearly
right with Kafka's own classes.
"""

import base64
import json
import struct

import pytest

from quota.gateway.login import AuthenticationRejected, SaslExchange
from quota.gateway.pipeline import ChannelError
from tests.support.wire.requests import creation
from tests.unit.quota.gateway.cluster import Cluster
from tests.unit.quota.gateway.play import take_frames

ALICE, BOB, WRONG = b"\0alice\0secret", b"\0bob\0secret", b"\0alice\0wrong"
FIRST, FINAL = b"n,,n=carol,r=abc", b"c=biws,r=abcdef,p=cHJvb2Y="


def a_cluster(lifetime_ms=0):
    cluster = Cluster()
    accepted = {"sessionLifetimeMs": lifetime_ms}
    cluster.accepts = {
        ALICE: accepted,
        BOB: accepted,
        WRONG: {"errorCode": 58, "errorMessage": "Authentication failed: Invalid username or password"},
        FIRST: {"authBytes": b"r=abcdef,s=c2FsdA==,i=4096"},
        FINAL: {"authBytes": b"v=dmVyaWZpZXI=", **accepted},
    }
    return cluster


@pytest.fixture
def sasl(play):
    """Return a function that opens a channel to a broker that authenticates its clients."""

    def _open(cluster=None, **options):
        return play(cluster or a_cluster(), authenticates=True, **options)

    return _open


def authenticate(on, mechanism, *messages):
    """Return the answers to a handshake and to messages."""
    answers = [on.call(17, 1, {"mechanism": mechanism})]
    return answers + [on.call(36, 2, {"authBytes": message}) for message in messages]


WAYS = pytest.mark.parametrize("way", ["bare", 0, 1, 2])
"""How a client sends its tokens: bare, as SaslHandshake v0 has it, or in a version of SaslAuthenticate."""


def begin(on, way, mechanism):
    assert on.call(17, 0 if way == "bare" else 1, {"mechanism": mechanism})["errorCode"] == 0


def send_token(on, way, token):
    """Send a token, and have the broker answer it."""
    if way == "bare":
        on.send_bytes(struct.pack(">i", len(token)) + token)
    else:
        on.send(36, way, {"authBytes": token})
    assert on.channel.user is None
    on.serve()


def tokens_got(on, way):
    """Return the broker's tokens that the client has got since the last call."""
    frames = take_frames(on.ports.client) if way == "bare" else on.answers()
    return frames if way == "bare" else [answer["authBytes"] for answer in frames]


@WAYS
@pytest.mark.parametrize(
    ("mechanism", "rounds", "user"),
    [
        ("PLAIN", {ALICE: b""}, "alice"),
        ("SCRAM-SHA-256", {FIRST: b"r=abcdef,s=c2FsdA==,i=4096", FINAL: b"v=dmVyaWZpZXI="}, "carol"),
    ],
)
def test_the_user_is_known_when_the_broker_has_accepted_the_last_round(sasl, way, mechanism, rounds, user):
    """The broker and the client get each other's tokens unchanged."""
    on = sasl()
    begin(on, way, mechanism)
    for token, answer in rounds.items():
        send_token(on, way, token)
        assert tokens_got(on, way) == [answer]
    assert on.channel.user == user
    assert [message["authBytes"] for key, _, message in on.seen if key == 36] == [*rounds]


def test_a_wrong_password_is_answered_with_the_brokers_own_message(sasl):
    """No request is forwarded after it."""
    on = sasl()
    rejected = authenticate(on, "PLAIN", WRONG)[1]
    assert (rejected["errorCode"], rejected["errorMessage"]) == (
        58,
        "Authentication failed: Invalid username or password",
    )
    with pytest.raises(ChannelError, match="API 3 before authentication"):
        on.send(3, 12, {"topics": []})


@pytest.mark.parametrize("mechanism", ["GSSAPI", "", "plain"])
def test_a_mechanism_that_hides_the_user_is_rejected_by_the_gateway(sasl, mechanism):
    """The error lists those of the broker that may be used, although the broker accepts it."""
    on = sasl()
    broker = on.cluster.answer
    on.cluster.answer = lambda key, *rest: {**broker(key, *rest), **({"errorCode": 0} if key == 17 else {})}
    (answer,) = authenticate(on, mechanism)
    assert answer == {"errorCode": 33, "mechanisms": ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"]}
    assert on.call(36, 2, {"authBytes": ALICE})["errorCode"] == 0
    assert on.channel.user is None


DELEGATED = b"n,,n=dG9rZW4,r=abc,tokenauth=true"


@WAYS
def test_a_delegation_token_is_rejected_with_what_to_use(sasl, way):
    """The broker does not see it; a bare token has no field for an error."""
    on = sasl()
    begin(on, way, "SCRAM-SHA-256")
    with pytest.raises(ChannelError, match="no delegation tokens: log in with the user's own password") as closed:
        send_token(on, way, DELEGATED)
    told = [] if way == "bare" else [(58, str(closed.value))]
    assert [(answer["errorCode"], answer["errorMessage"]) for answer in on.answers()] == told
    assert (closed.value.reason, on.keys_seen(), on.channel.user) == ("authentication", [17], None)


def test_a_delegation_token_for_a_new_session_is_answered_in_its_turn(sasl):
    """After the responses to the requests before it."""
    on = sasl(a_cluster(60_000))
    authenticate(on, "PLAIN", ALICE)
    on.call(17, 1, {"mechanism": "SCRAM-SHA-256"})
    on.send(3, 12, {"topics": []})
    on.send(36, 2, {"authBytes": DELEGATED})
    with pytest.raises(ChannelError, match="no delegation tokens"):
        on.serve()
    assert [answer.get("errorCode") for answer in on.answers()] == [None, 58]


def test_a_client_with_an_unreadable_name_is_disconnected_although_the_broker_accepts_it(sasl):
    cluster = a_cluster()
    cluster.accepts[b"odd"] = {}
    on = sasl(cluster)
    on.call(17, 1, {"mechanism": "PLAIN"})
    on.send(36, 2, {"authBytes": b"odd"})
    with pytest.raises(ChannelError, match="cannot read its name"):
        on.serve()
    (answer,) = on.answers()
    assert (answer["errorCode"], on.channel.user) == (58, None)


@pytest.mark.parametrize("rejected", [False, True])
def test_an_exchange_without_an_accepted_handshake_authenticates_no_user(sasl, rejected):
    """A broker would close the connection; if it did not, the client would still have no user."""
    on = sasl()
    if rejected:
        answer = on.cluster.answer
        on.cluster.answer = lambda key, *rest: {**answer(key, *rest), **({"errorCode": 33} if key == 17 else {})}
        on.call(17, 1, {"mechanism": "PLAIN"})
    assert on.call(36, 2, {"authBytes": ALICE})["errorCode"] == 0
    assert on.channel.user is None


@pytest.mark.parametrize(
    ("lifetime_ms", "advertised"), [(0, 0), (60_000, 50_000), (12_000, 6000), (3000, 1500), (1, 1), (2, 1)]
)
def test_the_advertised_session_lifetime_is_shorter_by_a_decision_timeout(sasl, lifetime_ms, advertised):
    """It ends earlier by 10 s here, and at most by half of the lifetime."""
    on = sasl(a_cluster(lifetime_ms), decision_timeout_ms=10_000)
    assert authenticate(on, "PLAIN", ALICE)[1]["sessionLifetimeMs"] == advertised


@pytest.mark.parametrize(
    ("lifetime_ms", "passed_ms", "expected"),
    [(0, 5000, [10_000]), (60_000, 0, [10_000]), (6000, 0, [4800]), (6000, 2500, [2800]), (6000, 7000, [])],
)
def test_a_decision_may_take_four_fifths_of_the_remaining_session(sasl, lifetime_ms, passed_ms, expected):
    """The broker closes the connection after that, and what was charged would not be carried out."""
    on = sasl(a_cluster(lifetime_ms), decision_timeout_ms=10_000)
    authenticate(on, "PLAIN", ALICE)
    on.ports.time += passed_ms
    on.send(19, 7, creation("a"))
    on.serve()
    assert [wanted.timeout_ms for wanted in on.ports.requested] == expected


def test_the_user_of_a_connection_cannot_change(sasl):
    """It is closed, though the broker of the tests accepts it."""
    on = sasl()
    authenticate(on, "PLAIN", ALICE)
    on.call(17, 1, {"mechanism": "PLAIN"})
    on.send(36, 2, {"authBytes": BOB})
    with pytest.raises(ChannelError, match="user of a connection cannot change"):
        on.serve()
    assert on.channel.user == "alice"


def test_a_failed_reauthentication_keeps_the_user(sasl):
    """The broker closes the connection by itself."""
    on = sasl()
    authenticate(on, "PLAIN", ALICE)
    assert authenticate(on, "PLAIN", WRONG)[1]["errorCode"] == 58
    assert on.channel.user == "alice"


def test_requests_sent_after_an_authentication_wait_for_its_end(sasl):
    """A handshake and a message at once: the second reaches the broker when the first is answered."""
    on = sasl()
    on.send_bytes(on.frame(17, 1, {"mechanism": "PLAIN"}) + on.frame(36, 2, {"authBytes": ALICE}))
    on.serve(1)
    assert on.keys_seen() == [17]
    on.pass_time(0)
    assert on.keys_seen() == [17, 36]
    assert on.channel.user == "alice"


@pytest.mark.parametrize("key", [0, 1, 3, 10, 19, 20, 37, 60])
def test_no_other_request_is_forwarded_before_authentication(sasl, key, protocol):
    on = sasl()
    version = protocol.apis[key].max_version
    with pytest.raises(ChannelError, match=f"API {key} before authentication"):
        on.send_bytes(b"\0\0\0\x20" + key.to_bytes(2) + version.to_bytes(2) + bytes(28))
    assert bytes(on.ports.broker) == b""


def test_a_large_request_before_authentication_is_rejected(sasl):
    """The limit is Kafka's own, 512 KiB."""
    on = sasl()
    with pytest.raises(ChannelError, match="524289 bytes"):
        on.send_bytes((524_289).to_bytes(4) + b"\0\x24\0\x02")


@WAYS
def test_the_session_is_known_whatever_the_clients_version(sasl, way):
    """Version 0 of SaslAuthenticate does not tell it, and the broker closes the connection at its end all the same."""
    on = sasl(a_cluster(6000), decision_timeout_ms=10_000)
    begin(on, way, "PLAIN")
    send_token(on, way, ALICE)
    on.send(19, 7, creation("a"))
    on.serve()
    assert [ask.timeout_ms for ask in on.ports.requested] == [4800]
    assert [seen for key, seen, _ in on.seen if key == 36] == [2 if way == 2 else 1]


class TestBareTokens:
    """SaslHandshake v0: what follows are frames without a header, until the exchange ends."""

    @pytest.mark.parametrize("mechanism", ["GSSAPI", "NONE"])
    def test_a_rejected_mechanism_is_answered_and_the_connection_closed(self, sasl, mechanism):
        on = sasl()
        on.send(17, 0, {"mechanism": mechanism})
        with pytest.raises(ChannelError, match="error 33"):
            on.serve()
        assert on.answers() == [{"errorCode": 33, "mechanisms": ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"]}]

    def test_a_token_may_be_sent_with_its_handshake(self, sasl):
        """It waits for the answer, and is not taken for a request."""
        on = sasl()
        on.send_bytes(on.frame(17, 0, {"mechanism": "PLAIN"}) + struct.pack(">i", len(ALICE)) + ALICE)
        on.serve()
        on.pass_time(0)
        assert (on.keys_seen(), on.channel.user) == ([17, 36], "alice")

    @pytest.mark.parametrize("length", [-1, 524_289])
    def test_a_token_has_kafkas_limits(self, sasl, length):
        on = sasl()
        begin(on, "bare", "PLAIN")
        with pytest.raises(ChannelError, match=f"a request of {length} bytes; 0 to 524288"):
            on.send_bytes(struct.pack(">i", length))


def user_of(mechanism, *rounds, claim="sub"):
    """Return the user after rounds of the client's message and the broker's answer."""
    exchange = SaslExchange(mechanism, claim)
    user = None
    for from_client, from_broker in rounds:
        exchange.on_client_message(from_client)
        user = exchange.on_broker_message(from_broker)
    return user


def jwt(claims, payload=None):
    parts = [json.dumps({"alg": "none"}).encode(), payload or json.dumps(claims).encode()]
    return b".".join([*(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts), b""])


def bearer(token, before=b"", after=b""):
    return b"n,,\x01" + before + b"auth=Bearer " + token + b"\x01" + after + b"\x01"


@pytest.mark.parametrize(
    ("message", "user"),
    [
        (b"\0alice\0secret", "alice"),
        (b"\0alice\0$accessToken:" + jwt({"sub": "alice"}), "alice"),
        (b"\0$accessToken\0" + jwt({"sub": "alice"}), "alice"),
        (b"\0$accessToken\0$accessToken:" + jwt({"sub": "alice"}), "alice"),
    ],
)
def test_plain_names_the_user_between_the_nulls(message, user):
    """Or by a token, so that the users of tokens do not share a bucket."""
    assert user_of("PLAIN", (message, b"")) == user


def test_a_name_in_a_later_scram_message_does_not_count():
    rounds = [(b"n,,n=alice,r=abc", b"r=x"), (b"n,,n=bob,r=abc", b"v=x")]
    assert user_of("SCRAM-SHA-256", *rounds) == "alice"


@pytest.mark.parametrize(
    ("message", "user"),
    [
        (bearer(jwt({"sub": "alice"})), "alice"),
        (bearer(jwt({"sub": "alice"}), before=b"x=y\x01", after=b"traceId=1 2\x01"), "alice"),
        (bearer(jwt({"sub": "alice"}), before=b"AUTH=Bearer " + jwt({"sub": "victim"}) + b"\x01"), "alice"),
    ],
)
def test_a_bearer_token_names_its_subject(message, user):
    """Only the one `auth` that Kafka reads counts, not extensions that look like it."""
    assert user_of("OAUTHBEARER", (message, b"")) == user


def test_the_claim_of_the_subject_can_be_configured():
    """Kafka's `sasl.oauthbearer.sub.claim.name`."""
    message = bearer(jwt({"sub": "id-1", "preferred": "alice"}))
    assert user_of("OAUTHBEARER", (message, b""), claim="preferred") == "alice"


@pytest.mark.parametrize(
    ("claims", "user"),
    [
        ({"sub": "123", "client_id": "etl"}, "service-account-etl"),
        ({"preferred_username": "", "client_id": "etl"}, "service-account-etl"),
        ({"preferred_username": "alice", "client_id": "web"}, "alice"),
        ({"preferred_username": 5, "client_id": "etl"}, None),  # a broker makes a name of it
        ({"sub": "123"}, None),
        ({"client_id": ""}, None),
    ],
)
@pytest.mark.parametrize("mechanism", ["OAUTHBEARER", "PLAIN"])
def test_a_user_is_named_by_the_first_of_several_claims_that_its_token_has(mechanism, claims, user):
    """Strimzi's `userNameClaim`, `fallbackUserNameClaim` and their prefixes."""
    token = jwt(claims)
    message = bearer(token) if mechanism == "OAUTHBEARER" else b"\0$accessToken\0" + token
    named = "preferred_username, service-account-{client_id}"
    if user is None:
        with pytest.raises(AuthenticationRejected, match="cannot read its name from"):
            user_of(mechanism, (message, b""), claim=named)
    else:
        assert user_of(mechanism, (message, b""), claim=named) == user


def test_the_accepted_token_names_the_user_and_not_a_rejected_one():
    """Kafka accepts a second token after an error on the first, which may name another user."""
    rejected = (bearer(jwt({"sub": "victim"})), b'{"status":"invalid_token"}')
    assert user_of("OAUTHBEARER", rejected) is None
    assert user_of("OAUTHBEARER", rejected, (bearer(jwt({"sub": "alice"})), b"")) == "alice"


UNNAMED = {
    # An authorization id of another user is rejected too, since its permissions would be ambiguous.
    "PLAIN": [b"", b"bob\0alice\0secret", b"\0\xff\xfe\0secret", b"\0$accessToken\0opaque"],
    # Kafka rejects these; if a broker accepted one, the client would still be rejected.
    "SCRAM-SHA-512": [
        b"n,,n=a=2cb,r=abc",  # lower case is no escape
        b"n,,n=alice\0,r=abc",
        b"n,,n=alice,r=abc\n",
    ],
    # Two of `auth` as well, of which Kafka takes the last.
    "OAUTHBEARER": [
        b"n,,\x01auth=Bearer x.y\x01\x01",
        b"n,,\x01auth=Bearer a.!!!.c\x01\x01",
        bearer(jwt({"sub": "alice"}))[:-1],
        bearer(jwt({"sub": "bob"}), before=b"auth=Bearer " + jwt({"sub": "victim"}) + b"\x01"),
        bearer(jwt({"sub": 5})),
        bearer(jwt([])),
        bearer(jwt({}, b"[" * 20_000)),
        bearer(jwt({"sub": " alice"})),  # a broker trims it if the token is signed, and does not if it is not
        bearer(jwt({}, b'{"sub":"\\ud800"}')),
    ],
}


@pytest.mark.parametrize(("mechanism", "message"), [(name, data) for name, some in UNNAMED.items() for data in some])
def test_a_message_without_an_unambiguous_name_is_rejected_even_if_the_broker_accepts_it(mechanism, message):
    rounds = [(message, b"r=x"), (b"c=biws,r=x,p=x", b"v=x")] if mechanism.startswith("SCRAM") else [(message, b"")]
    with pytest.raises(AuthenticationRejected, match=f"cannot read its name from {mechanism}"):
        user_of(mechanism, *rounds)
