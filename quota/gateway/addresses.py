"""The broker addresses in responses, which must be the gateway's own; otherwise clients would bypass it."""

from collections.abc import Iterable, Mapping
from typing import Any

from quota.errors import ErrorCode
from quota.wire.protocol import Address, ApiKey, Protocol

NAMING_BROKERS = frozenset({ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER, ApiKey.FIND_COORDINATOR})
"""The APIs whose responses contain broker addresses in every version."""

_NO_NODE = {"nodeId": -1, "host": "", "port": -1}


class Addresses:
    """The gateway's address for each address that brokers advertise.

    Where brokers advertise the gateway's addresses themselves, the two are the same.
    """

    def __init__(self, by_advertised: Mapping[Address, Address]) -> None:
        self._by_advertised = dict(by_advertised)
        self.rewritten = any(advertised != own for advertised, own in by_advertised.items())
        """Whether responses are rewritten."""

    def add(self, advertised: Address, own: Address) -> None:
        """Add a broker that has joined, and the gateway's address for it, in place of the broker that had it before."""
        left = {broker: address for broker, address in self._by_advertised.items() if address != own}
        self._by_advertised = {**left, advertised: own}
        self.rewritten = self.rewritten or advertised != own

    def own(self, advertised: Address) -> Address | None:
        """Return the gateway's address for a broker; None if it has none."""
        return self._by_advertised.get(advertised)

    @property
    def advertised(self) -> list[Address]:
        """The addresses that brokers may advertise."""
        return list(self._by_advertised)

    def foreign(self, advertised: Iterable[Address]) -> list[Address]:
        """Return the addresses that bypass the gateway."""
        return [address for address in advertised if address not in self._by_advertised]

    def translate(self, protocol: Protocol, key: int, version: int, body: bytes) -> tuple[bytes, list[Address]]:
        """Replace the broker addresses in a response of one of `NAMING_BROKERS`; return it, and those left out.

        Brokers whose addresses are not known are left out, so that clients wait for them as for brokers that are down.
        """
        codec = protocol.response(key, version)
        if key == ApiKey.FIND_COORDINATOR:
            response = codec.read(body, max_elements=len(body))
            changed, foreign = self._coordinators(response)
            return (codec.write(response) if changed else body), foreign
        head, end = codec.read_head(body, "brokers")
        kept, foreign = self.replaced(head["brokers"])
        if kept is head["brokers"]:
            return body, foreign
        return codec.write_head({**head, "brokers": kept}, "brokers") + body[end:], foreign

    def replaced(self, brokers: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Address]]:
        """Return brokers with the gateway's addresses, and the addresses of those left out."""
        foreign = self.foreign((broker["host"], broker["port"]) for broker in brokers)
        if not (self.rewritten or foreign):
            return brokers, foreign
        kept = []
        for broker in brokers:
            own = self.own((broker["host"], broker["port"]))
            if own is not None:
                kept.append({**broker, "host": own[0], "port": own[1]})
        return kept, foreign

    def _coordinators(self, response: dict[str, Any]) -> tuple[bool, list[Address]]:
        """Replace the addresses in a FindCoordinator response; return whether it changed, and the removed addresses."""
        changed, foreign = False, []
        for coordinator in response.get("coordinators", [response]):
            advertised = coordinator.get("host", ""), coordinator.get("port", -1)
            if coordinator["errorCode"] or (not self.rewritten and advertised in self._by_advertised):
                continue
            changed = True
            own = self.own(advertised)
            if own is not None:
                coordinator |= {"host": own[0], "port": own[1]}
            else:
                foreign.append(advertised)
                coordinator |= {**_NO_NODE, "errorCode": int(ErrorCode.COORDINATOR_NOT_AVAILABLE)}
        return changed, foreign
