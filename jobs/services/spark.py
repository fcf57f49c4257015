"""Spark for a deployment: its session, and the claims on the topics and the storage root."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from jobs.query_names import AUDIT, ENFORCE
from jobs.services.standby import Standby
from jobs.spark.failures import query_errors
from jobs.spark.queries import stop_all
from jobs.spark.session import HaltTimer, jvm_pid, kill_jvm, sign_of_life, spark_session
from jobs.storage.deployment import Deployment, TopicGone, claim_storage, claim_topics
from jobs.storage.files import DeploymentSession, open_files
from jobs.storage.holder import Holder
from jobs.storage.lease import Lease, LeaseWatch, check_free, hold_lease
from jobs.storage.stored_files import QUICK, check_store, stored_files
from quota.kafka.timing import Deadline
from quota.kafka.topics.preparation import prepare_topics
from quota.kafka.topics.specs import user_topic_names
from quota.kafka.topics.topic_admin import TopicAdmin
from quota.settings import Settings

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.2


@contextmanager
def claimed_deployment(
    settings: Settings, name: str, log: Path | None = None, *, take_over: bool = False, standby: Standby | None = None
) -> Iterator[DeploymentSession]:
    """Provide the session of a program; its topics are prepared, and the storage root belongs to them.

    What can be checked without a JVM is checked before one is started. The output of the JVM and the workers goes to
    the file `log`, standard error by default. A program of another name than `audit` runs the enforcing query; the
    audit alone needs no permission to describe the topics of requests. With a `standby`, another process that runs the
    queries is waited for, and no error.
    """
    topics = settings.topics
    needed = [topics.decisions, topics.dead_letters, topics.quotas, *([topics.requests] if name != AUDIT else [])]
    queries = [AUDIT] if name == AUDIT else [ENFORCE, *([AUDIT] if settings.enforce.with_audit else [])]
    leases = [LeaseWatch(query) for query in queries]
    settings.kafka.security.java()  # raises if Spark's own clients have no login
    known = check_root(settings, leases, waits=standby is not None)
    admin = TopicAdmin(settings.kafka.connection, settings.kafka.timeout_seconds)
    topic_ids = _prepare(settings, needed, admin, known.topics)
    with ExitStack() as stack:
        spark = stack.enter_context(spark_session(settings, name, log))
        with query_errors(queries[0]):
            session = stack.enter_context(DeploymentSession(spark, settings, open_files(spark, settings), admin))
        has_waited = stack.enter_context(hold_leases(session, leases, take_over=take_over, standby=standby))
        with query_errors(name):
            if has_waited:
                topic_ids = _prepare(settings, needed, admin, known.topics)
            deployment = _claim(session, topic_ids, needed)
        yield replace(session, deployment=deployment)


def check_root(settings: Settings, leases: Sequence[LeaseWatch], *, waits: bool = False) -> Deployment:
    """Check a storage root before Spark is started, and return what it belongs to, as far as a second allows it.

    The leases are watched from then on. One that is held on this machine is an error, unless the caller `waits`.
    """
    check_store(settings)
    if not settings.storage.is_s3 and "://" in settings.storage.root:  # only Hadoop may support other schemes
        return Deployment()
    files = stored_files(settings, QUICK)
    for lease in leases:
        if waits:
            lease.look(files)
        else:
            check_free(files, lease)
    return Deployment.read(files)


@contextmanager
def hold_leases(
    session: DeploymentSession,
    watches: Sequence[LeaseWatch],
    *,
    take_over: bool = False,
    standby: Standby | None = None,
) -> Iterator[bool]:
    """Hold the leases of queries inside the block, so that other processes cannot run them; stop them at its end.

    The JVM is killed if another process acquires one of the leases. `take_over` is as for `Lease.claim`. Yields whether
    the standby has waited for another process.
    """
    spark = session.spark
    me = Holder.here(jvm_pid(spark), sign_of_life(spark))
    on_loss, finish = partial(kill_jvm, spark, me.jvm.pid), partial(stop_all, spark)
    leases = [Lease(session.files, watch, session.settings.storage.lease, me) for watch in watches]
    with ExitStack() as held:
        with query_errors(watches[0].query):
            has_waited = standby is not None and standby.wait(session, leases, take_over=take_over)
        for watch, lease in zip(watches, leases, strict=True):
            with query_errors(watch.query):
                held.enter_context(hold_lease(lease, HaltTimer(spark), on_loss, finish, take_over=take_over))
        yield has_waited


def _prepare(settings: Settings, needed: Sequence[str], admin: TopicAdmin, known: Mapping[str, str]) -> dict[str, str]:
    """Prepare topics, and return their ids. One that the root knows is not created again, for which it would be wrong.

    A broker that has just started may not know the topic yet.
    """
    owned, deadline = known.keys() & set(needed), Deadline(settings.kafka.timeout_seconds)
    while owned and (gone := sorted(owned - admin.layout().topics.keys())):
        if deadline.has_passed:
            raise TopicGone(
                f"topic {gone[0]}, which {settings.storage.root} belongs to, was deleted, or this principal may not "
                "describe it; set another storage.root, or move its checkpoints and tables away"
            )
        time.sleep(_RETRY_SECONDS)
    return {name: topic.topic_id for name, topic in prepare_topics(settings, needed, admin).items()}


def _claim(session: DeploymentSession, topic_ids: Mapping[str, str], needed: Sequence[str]) -> Deployment:
    """Claim the storage root; retry while a topic is missing, which a broker that has just started may not know yet."""
    settings, deadline = session.settings, Deadline(session.settings.kafka.timeout_seconds)
    if settings.topics.requests not in needed:
        return claim_topics(session.files, settings, topic_ids)
    while True:
        try:
            deployment = claim_storage(session.files, settings, topic_ids)
        except TopicGone:
            if deadline.has_passed:
                raise
            time.sleep(_RETRY_SECONDS)
            topic_ids = _prepare(settings, needed, session.topics, {})
        else:
            break
    if settings.topics.user_topic_prefix and not user_topic_names(topic_ids, settings):
        _log.warning(
            "no user has their own topic yet, or this principal may not describe them: mutation-quota user-topics "
            "prepare creates them and prints the ACLs"
        )
    return deployment
