"""The user of an overheard SASL exchange, and exchanges that name nobody.

`tests/integration/gateway/test_sasl_oracle.py` compares thousands that are nearly right with Kafka's own classes.
"""

import base64
import json

import pytest

from quota.gateway.sasl import AuthenticationRejected, SaslExchange


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
        (b"alice\0alice\0secret", "alice"),
        ("\0Zoë ☃\0x".encode(), "Zoë ☃"),
        (b"\0alice\0$accessToken:" + jwt({"sub": "alice"}), "alice"),
        (b"\0$accessToken\0" + jwt({"sub": "alice"}), "alice"),
        (b"\0$accessToken\0$accessToken:" + jwt({"sub": "alice"}), "alice"),
    ],
)
def test_plain_names_the_user_between_the_nulls(message, user):
    """Or by a token, so that the users of tokens do not share a bucket."""
    assert user_of("PLAIN", (message, b"")) == user


@pytest.mark.parametrize(
    ("message", "user"),
    [
        (b"n,,n=alice,r=abc", "alice"),
        (b"n,,m=ext,n=alice,r=abc", "alice"),
        (b"n,,n=a=2Cb=3Dc,r=abc", "a,b=c"),
        (b"n,,n=alice,r=abc,e=n=bob", "alice"),
        (b"n,,n=alice,r=abc,tokenauth=false", "alice"),
    ],
)
def test_scram_names_the_user_in_the_first_message(message, user):
    """`=2C` is a comma and `=3D` an equals sign; the name is accepted in the second round only."""
    exchange = SaslExchange("SCRAM-SHA-256")
    exchange.on_client_message(message)
    assert exchange.on_broker_message(b"r=abcdef,s=c2FsdA==,i=4096") is None
    exchange.on_client_message(b"c=biws,r=abcdef,p=cHJvb2Y=")
    assert exchange.on_broker_message(b"v=dmVyaWZpZXI=") == user


@pytest.mark.parametrize("extensions", [b"tokenauth=true", b"tokenauth=TRUE", b"x=y,tokenauth=true", b"TokenAuth=true"])
def test_a_delegation_token_is_rejected_before_the_broker_sees_it(extensions):
    """The name in the exchange is that of the token, and never a user."""
    with pytest.raises(AuthenticationRejected, match="takes no delegation tokens"):
        SaslExchange("SCRAM-SHA-256").on_client_message(b"n,,n=bXktdG9rZW4=3D,r=abc," + extensions)


def test_a_name_in_a_later_scram_message_does_not_count():
    rounds = [(b"n,,n=alice,r=abc", b"r=x"), (b"n,,n=bob,r=abc", b"v=x")]
    assert user_of("SCRAM-SHA-256", *rounds) == "alice"


@pytest.mark.parametrize(
    ("message", "user"),
    [
        (bearer(jwt({"sub": "alice"})), "alice"),
        (bearer(jwt({"sub": "alice"}), before=b"x=y\x01", after=b"traceId=1 2\x01"), "alice"),
        (b"n,a=alice,\x01auth=BEARER   " + jwt({"sub": "alice"}) + b"\x01\x01", "alice"),
        (bearer(jwt({}, b'{"sub":"victim","sub":"alice"}')), "alice"),
        (bearer(jwt({"sub": "alice"}), before=b"AUTH=Bearer " + jwt({"sub": "victim"}) + b"\x01"), "alice"),
        (bearer(jwt({"sub": "alice"}), before=b"x=auth=Bearer " + jwt({"sub": "victim"}) + b"\x01"), "alice"),
    ],
)
def test_a_bearer_token_names_its_subject(message, user):
    """Only the one `auth` that Kafka reads counts, not extensions that look like it."""
    assert user_of("OAUTHBEARER", (message, b"")) == user


def test_the_claim_of_the_subject_can_be_configured():
    """Kafka's `sasl.oauthbearer.sub.claim.name`."""
    message = bearer(jwt({"sub": "id-1", "preferred": "alice"}))
    assert user_of("OAUTHBEARER", (message, b""), claim="preferred") == "alice"


def test_the_accepted_token_names_the_user_and_not_a_rejected_one():
    """Kafka accepts a second token after an error on the first, which may name another user."""
    rejected = (bearer(jwt({"sub": "victim"})), b'{"status":"invalid_token"}')
    assert user_of("OAUTHBEARER", rejected) is None
    assert user_of("OAUTHBEARER", rejected, (bearer(jwt({"sub": "alice"})), b"")) == "alice"


UNNAMED = {
    # An authorization id of another user is rejected too, since its permissions would be ambiguous.
    "PLAIN": [
        b"",
        b"bob\0alice\0secret",
        b"\0\xff\xfe\0secret",
        b"\0$accessToken\0opaque",
    ],
    # Kafka rejects these; if a broker accepted one, the client would still be rejected.
    "SCRAM-SHA-512": [
        b"n,,n=a=2cb,r=abc",  # lower case is no escape
        b"n,,n=alice,r=abc\n",
        b"n,,n=al\0ice,r=abc",
    ],
    # Two of `auth` as well, of which Kafka takes the last.
    "OAUTHBEARER": [
        b"n,,\x01auth=Bearer x.y\x01\x01",
        b"n,,\x01auth=Bearer a.!!!.c\x01\x01",
        b"n,,\x01auth=Bearer " + jwt({"sub": "alice"}) + b"\x01",
        bearer(jwt({"sub": "bob"}), before=b"auth=Bearer " + jwt({"sub": "victim"}) + b"\x01"),
        bearer(jwt({"sub": 5})),
        bearer(jwt([])),
        bearer(jwt({}, b"[" * 20_000)),
        bearer(jwt({"sub": " alice"})),  # a broker trims it if the token is signed, and does not if it is not
        bearer(jwt({"sub": "alice\x1f"})),
        bearer(jwt({}, b'{"sub":"\\ud800"}')),
    ],
}


@pytest.mark.parametrize(("mechanism", "message"), [(name, data) for name, some in UNNAMED.items() for data in some])
def test_a_message_without_an_unambiguous_name_is_rejected_even_if_the_broker_accepts_it(mechanism, message):
    rounds = [(message, b"r=x"), (b"c=biws,r=x,p=x", b"v=x")] if mechanism.startswith("SCRAM") else [(message, b"")]
    with pytest.raises(AuthenticationRejected, match=f"cannot read its name from {mechanism}"):
        user_of(mechanism, *rounds)
