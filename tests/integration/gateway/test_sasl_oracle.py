"""The user that the gateway reads from a SASL exchange is the one that Kafka's own classes authenticate."""

import base64
import json
import random
import subprocess
import time
from pathlib import Path

from jobs.installation import jars_folder
from quota.gateway.login import AuthenticationRejected, SaslExchange
from tests.support.java_source import java_command

_EXCHANGES = 6000
_DELEGATED = "\0token"
"""What the oracle says of a delegation token."""

_PIECES = [
    *(b"n,,", b"n,a=alice,", b"n,a=bob,", b"n=", b"n=alice", b"n=bob", b"r=abc", b",", b"=", b"=2C", b"=3D", b"=2c"),
    *(b"\0", b"alice", b"bob", b"\x01", b"\x01\x01", b"auth=Bearer ", b"AUTH=Bearer ", b"auth=bearer  ", b"m=x,"),
    *(b"tokenauth=true", b"tokenauth=false", b"TOKENAUTH=true", b"tokenauth=TRUE ", b"a=", b"x=y", b" ", b"\n"),
    *(b"\xc3\xa9", b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\x7f", b"\r", b"\t", b"==", b".", b"e=auth=Bearer "),
]


def _jwt(payload):
    parts = [b'{"alg":"none"}', payload]
    return b".".join([*(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts), b""])


def _payloads(now):
    times = {"iat": now - 100, "exp": now + 6000}
    valid = [json.dumps({"sub": name, **times}).encode() for name in ("alice", "bob", " bob", "b\u00e9", "", "a\tb")]
    extra = f',"iat":{now - 100},"exp":{now + 6000}}}'.encode()
    odd = [b'{"sub":"alice","sub":"bob"', b'{"\\u0073ub":"bob"', b'{"sub":["bob"]', b'{"sub":5', b'{"sub":"\\ud800"']
    expired = json.dumps({"sub": "alice", "iat": now - 100, "exp": now - 50}).encode()
    return [*valid, *(start + extra for start in odd), expired, b"[]", b"{}", b"nonsense"]


class Messages:
    """Messages that are nearly right, from a seed."""

    def __init__(self, seed):
        self._chance = random.Random(seed)
        self._tokens = [_jwt(payload) for payload in _payloads(int(time.time()))]

    def exchange(self):
        """Return a mechanism, and one to three messages of the client."""
        mechanism = self._chance.choice(["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "OAUTHBEARER"])
        count = self._chance.choice([1, 1, 2, 3]) if mechanism == "OAUTHBEARER" else 1
        return mechanism, [self._message(mechanism) for _ in range(count)]

    def _message(self, mechanism):
        chance = self._chance
        good = {
            "PLAIN": [b"", b"\0", chance.choice([b"alice", b"bob"]), b"\0", b"secret"],
            "SCRAM-SHA-256": [b"n,,", b"n=", chance.choice([b"alice", b"b=2Co=3Db"]), b",", b"r=abc"],
            "OAUTHBEARER": [b"n,,", b"\x01", b"auth=Bearer ", chance.choice(self._tokens), b"\x01", b"\x01"],
        }[mechanism]
        for _ in range(chance.choice([0, 1, 1, 2, 3])):
            at = chance.randint(0, len(good))
            piece = chance.choice([*_PIECES, chance.choice(self._tokens)])
            match chance.randrange(4):
                case 0:
                    good[at : at + 1] = [piece]
                case 1:
                    good[at:at] = [piece, *good[at : at + 3]]
                case 2:
                    del good[at : at + 1]
                case _:
                    good[at:at] = [piece]
        return b"".join(good)


def user_read(mechanism, messages):
    """Return the gateway's user for an exchange that the broker accepts; None for none."""
    exchange = SaslExchange(mechanism)
    try:
        for message in messages:
            exchange.on_client_message(message)
        if mechanism.startswith("SCRAM"):
            exchange.on_broker_message(b"r=x")
            exchange.on_client_message(b"c=biws,r=x,p=x")
        return exchange.on_broker_message(b"")
    except AuthenticationRejected:
        return None


def test_each_login_has_the_same_user_as_in_kafka(base_settings):
    """Thousands of exchanges that are nearly right: the same name, or none; and mostly the same."""
    messages = Messages(599)
    exchanges = [messages.exchange() for _ in range(_EXCHANGES)]
    lines = [" ".join([name, *(base64.b64encode(message).decode() for message in sent)]) for name, sent in exchanges]
    oracle = java_command(Path(__file__).with_name("SaslOracle.java"), jars_folder(base_settings.broker.jars))
    done = subprocess.run(oracle, input="\n".join(lines), capture_output=True, text=True, check=True)
    results = [line.split(" ") for line in done.stdout.splitlines() if line[:1].isdigit()]
    assert len(results) == _EXCHANGES
    same = stricter = 0
    for (mechanism, sent), (count, encoded) in zip(exchanges, results, strict=True):
        if count == "0":
            continue  # the broker does not accept the client
        user = base64.b64decode(encoded).decode()
        ours = user_read(mechanism, sent[: int(count)])
        assert ours in {None, user}, (mechanism, sent, user, ours)
        assert ours is None or user != _DELEGATED
        same += ours == user
        stricter += ours is None
    assert same > 5 * stricter > 0, (same, stricter)
