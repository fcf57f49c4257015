"""The service that serves Kafka's protocol in front of the target cluster."""

import asyncio
import logging
import resource
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial

from jobs.gateway.brokers import advertised_addresses, follow_brokers
from jobs.gateway.encryption import make_encryption
from jobs.gateway.server import GatewayServer, plan_listeners
from jobs.installation import kafka_protocol
from jobs.metrics.endpoint import ServiceEndpoint
from jobs.metrics.families import gateway_families
from jobs.metrics.loops import LoopMetrics, counted, gateway_health
from jobs.query_names import GATEWAY
from jobs.signals import stop_signals
from quota.errors import ClusterError
from quota.gateway.context import GatewayContext
from quota.gateway.requests import OfferedApis
from quota.kafka.awaited_decisions import AwaitedDecisions
from quota.kafka.quotas.writer import LoggedRates
from quota.kafka.requests_and_answers import AnswerReader, RequestWriter, read_requests
from quota.kafka.timing import now_monotonic_ms
from quota.kafka.topics.preparation import prepare_topics
from quota.records.decision import Decision
from quota.settings import Settings
from quota.wire.protocol import Address

_log = logging.getLogger(__name__)

_ID_PREFIX = "gateway-"
"""The prefix of the request ids of all gateways."""
_LINGER_MS = 1


def run_gateway(settings: Settings) -> None:
    """Serve clients until stopped."""
    with ServiceEndpoint(settings.metrics, GATEWAY) as endpoint:
        asyncio.run(serve_gateway(settings, stop_signals(), endpoint))


async def serve_gateway(
    settings: Settings, stopping: AbstractContextManager[threading.Event], endpoint: ServiceEndpoint
) -> None:
    """Serve clients until the event of `stopping` is set; its block begins once the cluster has answered."""
    own, target = settings.gateway, settings.target_connection
    encryption = make_encryption(own, settings.target_security)
    protocol = kafka_protocol(settings.broker.jars)
    brokers = [broker for _, broker in own.ports] or target.addresses

    async def addresses_from(brokers: Sequence[Address], *, with_down: bool = False) -> dict[int, Address]:
        security, seconds = settings.target_security.security, settings.kafka.timeout_seconds  # files may have changed
        return await advertised_addresses(brokers, security, encryption, protocol, seconds, with_down=with_down)

    listeners, addresses = plan_listeners(own, await addresses_from(brokers, with_down=not own.listeners))
    topics = settings.topics
    prepare_topics(settings, [topics.requests, topics.decisions, topics.dead_letters, topics.quotas])
    context = GatewayContext(
        protocol=protocol,
        offered=OfferedApis(protocol, permissive=own.permissive),
        addresses=addresses,
        authenticates=target.security.has_sasl or encryption.rules is not None,
        subject_claim=own.oauth_subject_claim,
        when_silent=own.when_silent,
        decision_timeout_ms=round(own.decision_timeout_seconds * 1000),
        assumed_partitions=own.default_partitions,
        rejection_message=settings.quota.rejection_message,
        enforced_by=settings.kafka.bootstrap_servers,
    )
    # A request that is written later is in vain; a new producer may take a second before it writes.
    limit_seconds = max(own.decision_timeout_seconds, settings.kafka.timeout_seconds)
    decisions = AwaitedDecisions(
        RequestWriter(settings, _LINGER_MS, limit_seconds=limit_seconds),
        AnswerReader(settings, request_id_prefix=_ID_PREFIX),
        topics,
        _ID_PREFIX,
        lambda _, seconds: context.stats.add_decision(seconds),
        limit_ms=context.decision_timeout_ms,
        on_any=partial(_record, context),
    )
    _recall(decisions, settings)
    rates = LoggedRates(settings, own.decision_timeout_seconds)
    decisions.start()
    _raise_file_limit(own.max_connections)
    metrics = LoopMetrics(GATEWAY, lambda: gateway_families(context.stats, len(decisions)))
    try:
        with stopping as stop, counted(endpoint, settings, context.stats, metrics, gateway_health(context.stats)):
            server = GatewayServer(context, decisions, rates, own, encryption)
            followers = [follow_brokers(server.connections.brokers, encryption, protocol, context.stats)]
            if not own.listeners:
                followers.append(server.follow_joins(brokers, lambda broker: addresses_from([broker])))
            tasks = [asyncio.create_task(follower) for follower in followers]
            await server.serve(listeners, stop)
        for task in tasks:
            task.cancel()
    finally:
        decisions.close()
        rates.close()


def _recall(decisions: AwaitedDecisions, settings: Settings) -> None:
    """Take over the creations that a killed gateway has requested, so that their retries are not charged again."""
    if settings.topics.user_topic_prefix is None:
        try:
            decisions.recall(read_requests(settings, _ID_PREFIX))
        except ClusterError as error:
            _log.warning(
                "creations that another gateway has requested may be charged again if they are retried: %s", error
            )


def _record(context: GatewayContext, decision: Decision, age_ms: int) -> None:
    """Record what a decision, for any gateway, tells of its bucket; of a wrong clock, no age above the time limit."""
    context.buckets.record(decision, now_monotonic_ms() - min(max(age_ms, 0), context.decision_timeout_ms))


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
