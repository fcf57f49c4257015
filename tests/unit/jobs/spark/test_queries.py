"""What a person sees when queries end, whatever else fails then."""

import logging
import threading
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JNetworkError

from jobs.spark.failures import QueryFailed
from jobs.spark.queries import await_queries, check_queries, stop_after_batch
from quota.errors import MutationQuotaError


class Query:
    """A query that has failed, on a JVM that has exited since."""

    name = "enforce"

    def __init__(self):
        self.isActive, self.lastProgress = False, None

    def exception(self):
        return None if self.isActive else "java.lang.OutOfMemoryError: Java heap space"

    def stop(self):
        pass

    @property
    def _jsq(self):
        raise Py4JNetworkError("the JVM does not answer")


class RenamedQuery(Query):
    """A query of a PySpark whose internal names have changed."""

    _jsq = object()


def test_a_batch_that_is_stopped_within_logs_no_traceback_of_py4j(caplog):
    log = logging.getLogger("py4j")
    level = log.level
    try:
        stop_after_batch([])
        logging.getLogger("py4j.clientserver").error("There was an exception while executing the Python Proxy")
    finally:
        log.setLevel(level)
    assert caplog.messages == []


@pytest.mark.parametrize("query", [Query(), RenamedQuery()])
def test_a_failure_is_reported_although_its_batch_is_unknown(query):
    with pytest.raises(QueryFailed, match=r"^enforce failed: java\.lang\.OutOfMemoryError: Java heap space$") as raised:
        check_queries([query])
    assert raised.value.batch is None


def test_the_error_that_ends_a_run_is_hidden_neither_by_the_last_poll_nor_by_the_stop_of_a_query():
    """Both fail, because the JVM has exited."""
    query, errors = Query(), iter([MutationQuotaError("a topic was recreated"), MutationQuotaError("no JVM")])
    query.isActive, query.status = True, {"isTriggerActive": False}
    query.stop = Mock(side_effect=Py4JNetworkError("the JVM does not answer"))

    def poll():
        raise next(errors)

    with pytest.raises(MutationQuotaError, match="a topic was recreated"):
        await_queries(threading.Event(), [query], poll)


def test_the_failure_of_a_query_is_not_hidden_by_that_of_the_last_poll():
    def poll():
        raise MutationQuotaError("the topics cannot be read")

    with pytest.raises(QueryFailed, match="Java heap space"):
        await_queries(threading.Event(), [Query()], poll)


def test_the_last_poll_sees_a_batch_that_ends_with_its_query():
    polls = []
    with pytest.raises(QueryFailed):
        await_queries(threading.Event(), [Query()], lambda: polls.append("seen"))
    assert polls == ["seen"]
