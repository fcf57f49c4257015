"""The owners of delegation tokens, as the gateway's own user sees them."""

import asyncio

import pytest

from jobs.gateway.encryption import Encryption
from jobs.gateway.owners import TokenOwners
from jobs.sandbox.broker import free_port
from quota.errors import ClusterError, NotFound
from quota.settings.security.clients import Security
from tests.support.scripted_broker import ScriptedBroker


def tokens(**owners):
    """A response with the tokens of owners; each was requested by another user."""
    return {
        "errorCode": 0,
        "tokens": [
            {
                "principalType": "User",
                "principalName": owner,
                "tokenRequesterPrincipalType": "User",
                "tokenRequesterPrincipalName": "requester",
                "tokenId": token_id,
                "hmac": b"secret",
            }
            for token_id, owner in owners.items()
        ],
        "throttleTimeMs": 0,
    }


@pytest.fixture
def broker(protocol):
    """A broker with a token of alice."""
    with ScriptedBroker(protocol, {41: tokens(a="alice")}).listening() as running:
        yield running


@pytest.fixture
def find(protocol, broker):
    """Return a function that finds the owners of tokens at once, as one gateway."""

    async def find_all(owners, token_ids, port):
        return await asyncio.gather(*(owners.find(("127.0.0.1", port), token_id) for token_id in token_ids))

    owners = TokenOwners(Security(), Encryption(), protocol)
    with asyncio.Runner() as loop:
        yield lambda *token_ids, port=broker.port: loop.run(find_all(owners, token_ids, port))


def test_a_broker_is_asked_once_for_each_new_token(find, broker):
    """Of many clients with new tokens, one asks; the owner is not who requested the token."""
    assert find("a", "a", "a") == ["alice"] * 3
    assert [key for key, _ in broker.requests] == [18, 41]
    broker.answers = {41: tokens(a="alice", b="bob")}
    assert find("a", "b", "b") == ["alice", "bob", "bob"]
    assert [key for key, _ in broker.requests] == [18, 41] * 2


def test_the_reason_is_told_if_an_owner_cannot_be_seen(find, broker):
    with pytest.raises(NotFound, match="grant its user DescribeTokens"):
        find("hidden")
    broker.answers = {41: {**tokens(), "errorCode": 64}}
    with pytest.raises(ClusterError, match=r"cannot see the owner .*: the broker returns error 64$"):
        find("b")
    with pytest.raises(ClusterError, match=r"cannot see the owner .*: connection refused$"):
        find("b", port=free_port())
