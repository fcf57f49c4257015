"""The service that serves Kafka's protocol in front of the target cluster."""

import asyncio
import logging
import resource
import threading

from jobs.background import background
from jobs.gateway.contact import follow_brokers
from jobs.gateway.encryption import make_encryption
from jobs.gateway.listeners import plan_listeners
from jobs.gateway.pending_decisions import ID_PREFIX, PendingDecisions
from jobs.gateway.probe import advertised_addresses
from jobs.gateway.server import GatewayServer
from jobs.metrics.gateway import NAME, GatewayMetrics
from jobs.metrics.health.endpoint import ServiceEndpoint
from jobs.metrics.health.gateway import GatewayHealth
from jobs.services.progress import log_progress
from jobs.services.stopping import stop_signals
from jobs.spark.installation import jars_folder
from quota.gateway.context import GatewayContext
from quota.gateway.mutations.mutate import Rules
from quota.gateway.mutes import Mutes
from quota.gateway.offered import OfferedApis
from quota.kafka.decider import Decider
from quota.kafka.topics.preparation import prepare_topics
from quota.settings import Settings
from quota.wire.protocol import Protocol

_log = logging.getLogger(__name__)


def run_gateway(settings: Settings) -> None:
    """Serve clients until stopped.

    Raises:
        BadInput: the settings do not fit the cluster; for example, its addresses bypass the gateway.
        ClusterError: a cluster does not respond, or topics do not have the configs that the gateway needs.
    """
    with stop_signals() as stop, ServiceEndpoint(settings.metrics, NAME) as endpoint:
        serve_gateway(settings, stop, endpoint)


def serve_gateway(settings: Settings, stop: threading.Event, endpoint: ServiceEndpoint) -> None:
    """Serve clients on the calling thread until `stop` is set.

    Raises:
        BadInput: as `run_gateway`.
        ClusterError: as `run_gateway`.
    """
    asyncio.run(_serve(settings, stop, endpoint))


async def _serve(settings: Settings, stop: threading.Event, endpoint: ServiceEndpoint) -> None:
    own, target = settings.gateway, settings.target_connection
    encryption = make_encryption(own, target.security)
    protocol = Protocol.of_jar(jars_folder(settings.broker.jars))
    brokers = [broker for _, broker in own.ports] or target.addresses
    advertised = await advertised_addresses(
        brokers, target.security, encryption.brokers, protocol, settings.kafka.timeout_seconds
    )
    listeners, addresses = plan_listeners(own, advertised)
    prepare_topics(settings, [settings.topics.requests, settings.topics.decisions, settings.topics.dead_letters])
    context = GatewayContext(
        protocol=protocol,
        offered=OfferedApis(protocol, rewritten=addresses.rewritten, permissive=own.permissive),
        addresses=addresses,
        rules=Rules(
            own.when_silent,
            round(own.decision_timeout_seconds * 1000),
            own.default_partitions,
            settings.kafka.bootstrap_servers,
        ),
        mutes=Mutes(),
        authenticates=target.security.has_sasl,
        subject_claim=own.oauth_subject_claim,
        max_request_bytes=own.max_request_bytes,
    )
    decider = Decider(settings, ID_PREFIX)
    decisions = PendingDecisions(decider.ask, settings.topics, context.stats)
    loop = asyncio.get_running_loop()
    decider.start(
        lambda answer: loop.call_soon_threadsafe(decisions.answer, answer),
        lambda request_id, reason: loop.call_soon_threadsafe(decisions.fail, request_id, reason),
    )
    _raise_file_limit(own.max_connections)
    try:
        with (
            background(lambda end: log_progress(context.stats, end), "progress"),
            endpoint.following(
                settings, GatewayMetrics(context.stats, lambda: len(decisions)), GatewayHealth(context.stats)
            ),
        ):
            contact = asyncio.create_task(
                follow_brokers([each.broker for each in listeners], encryption.brokers, protocol, context.stats)
            )
            await GatewayServer(context, decisions, own, encryption).serve(listeners, stop)
        contact.cancel()
    finally:
        decider.close()
    _log.info("%s", context.stats)


def _raise_file_limit(max_connections: int) -> None:
    """Raise the limit of open files as far as the system permits; warn if it is too low."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < 2 * max_connections:
        _log.warning(
            "gateway.max_connections=%d needs %d open files, and this process may have %d",
            max_connections,
            2 * max_connections,
            hard,
        )
