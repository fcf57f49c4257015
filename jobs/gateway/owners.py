"""The owners of delegation tokens (KIP-48): a client's login names its token, and only the brokers know whose it is."""

import asyncio

from jobs.gateway.encryption import Encryption
from jobs.gateway.probe import CLIENT_ID
from quota.errors import ClusterError, NotFound
from quota.kafka.brokers.connection import connected, log_in
from quota.kafka.brokers.failures import FAILURES, failure_reason
from quota.settings.security.clients import Security
from quota.wire.api_keys import ApiKey
from quota.wire.protocol import Address, Protocol

_VERSION = 3
"""The version of DescribeDelegationToken that is requested: it tells owners apart from requesters (KIP-373)."""
_ANSWER_SECONDS = 5.0
_UNKNOWN = "the mutation quota gateway cannot see the owner of this delegation token"
_MAX_ELEMENTS = 1_000_000


class TokenOwners:
    """Finds the owners of delegation tokens, and remembers them: the owner of a token never changes.

    A token of an unknown owner is one that a broker has just accepted, so the brokers are asked once for a new token.
    """

    def __init__(self, security: Security, encryption: Encryption, protocol: Protocol) -> None:
        """Ask brokers as the gateway's own user."""
        self._security = security
        self._encryption = encryption
        self._protocol = protocol
        self._owners: dict[str, str] = {}
        self._asking = asyncio.Lock()

    async def find(self, broker: Address, token_id: str) -> str:
        """Return the name of the owner of a token, which this broker has accepted; an error says why it is unknown."""
        async with self._asking:  # of many clients that start together, one asks
            if token_id not in self._owners:
                self._owners = await self._read(broker)
        if token_id not in self._owners:
            raise NotFound(
                f"{_UNKNOWN}; grant its user DescribeTokens on the owners "
                "(kafka-acls.sh --operation DescribeTokens --user-principal)"
            )
        return self._owners[token_id]

    async def _read(self, broker: Address) -> dict[str, str]:
        """Return the owners of all tokens that the gateway's user may see, by the tokens' ids."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                context = await self._encryption.context_for(self._encryption.own)
                async with connected(broker, context, self._protocol, CLIENT_ID) as calls:
                    await log_in(calls, self._security)
                    response = await calls.call(
                        ApiKey.DESCRIBE_DELEGATION_TOKEN, _VERSION, {"owners": None}, _MAX_ELEMENTS
                    )
        except FAILURES as error:
            raise ClusterError(f"{_UNKNOWN}: {failure_reason(error)}") from None
        if response["errorCode"]:
            raise ClusterError(f"{_UNKNOWN}: the broker returns error {response['errorCode']}")
        return {token["tokenId"]: token["principalName"] for token in response["tokens"]}
