"""A request that fails over a route ends the measurement of the gateway's cost, and is never a figure."""

from unittest.mock import MagicMock

import pytest

from quota.errors import MutationQuotaError
from tests.evidence.gateway.cost.routes import Route
from tests.evidence.gateway.requests import metadata


def route_to(answer):
    """A route to a broker whose clients get one answer."""
    broker = MagicMock()
    broker.connect.return_value.__enter__.return_value.call.return_value = answer
    return Route("through the gateway", broker, 1)


@pytest.mark.parametrize(
    "answer",
    [
        {"errorCode": 35},
        {"topics": [{"errorCode": 0}, {"errorCode": 3}]},
        {"topics": [{"partitions": [{"errorCode": 5}]}]},
    ],
)
def test_an_error_anywhere_in_a_response_is_raised(answer):
    with pytest.raises(MutationQuotaError, match="Metadata, through the gateway: "):
        route_to(answer).check(metadata("Metadata"))


def test_a_response_without_an_error_is_measured():
    route_to({"throttleTimeMs": 5, "topics": [{"errorCode": 0}]}).check(metadata("Metadata"))
