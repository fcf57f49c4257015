"""The window of a broker's controller quotas, which determines the bursts there."""

from quota.errors import ClusterError
from quota.kafka.brokers.client_quotas import ClusterQuotas, check_response
from quota.kafka.brokers.connection import BrokerCalls, connected, log_in, tls_context
from quota.records.quota import Window
from quota.wire.address import Address
from quota.wire.api_keys import ApiKey

_BROKER = 4
"""The resource type BROKER of DescribeConfigs."""

_NUM, _SIZE = "controller.quota.window.num", "controller.quota.window.size.seconds"
_CLIENT_ID = "mutation-quota"


def read_window(cluster: ClusterQuotas) -> Window:
    """Return the window of one broker of a cluster; all brokers and controllers should have the same."""
    security = cluster.connection.security

    async def read(calls: BrokerCalls, broker: Address) -> Window:
        version = calls.version_of(ApiKey.METADATA) or 0
        response = await calls.call(ApiKey.METADATA, version, {"topics": [], "allowAutoTopicCreation": False})
        nodes = {(each["host"], each["port"]): each["nodeId"] for each in response["brokers"]}
        if broker in nodes:
            return await _describe(calls, nodes[broker])
        if not nodes:
            raise ClusterError("its metadata contains no brokers")
        address, node = next(iter(nodes.items()))  # only the broker itself returns its configs
        async with connected(address, tls_context(security), cluster.protocol, _CLIENT_ID) as own:
            await log_in(own, security)
            return await _describe(own, node)

    return cluster.query("read the window of", read)


async def _describe(calls: BrokerCalls, node: int) -> Window:
    resource = {"resourceType": _BROKER, "resourceName": str(node), "configurationKeys": [_NUM, _SIZE]}
    response = await calls.call(
        ApiKey.DESCRIBE_CONFIGS, calls.version_of(ApiKey.DESCRIBE_CONFIGS) or 0, {"resources": [resource]}
    )
    (result,) = response["results"]
    check_response(result, "DescribeConfigs")
    values = {each["name"]: each["value"] for each in result["configs"]}
    if not {_NUM, _SIZE} <= values.keys():
        raise ClusterError(f"it has no {_NUM}, which requires Kafka 2.7")
    return Window(int(values[_NUM]), int(values[_SIZE]))
