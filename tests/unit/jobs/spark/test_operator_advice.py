"""The advice about a failed query fits the cause, not the error that Spark wraps around it."""

import pytest

from jobs.spark.failures import QueryFailed
from jobs.spark.operator_advice import with_operator_advice
from quota.errors import MutationQuotaError
from quota.settings import load_settings
from tests.support.object_store import store_settings

LOADING = (
    "[STREAM_FAILED] Query [id = a, runId = b] terminated with exception: Job aborted due to stage failure: "
    "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state. SQLSTATE: 58030\n"
    "\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotLoadStore(QueryExecutionErrors.scala:2184)\n"
    "FlatMapGroupsInPandasWithState fill(bucket#1)#2, Update, NoTimeout\n"
)
"""What Spark reports, with a part of the query's plan, of any error while it loads state."""


def advice(text, settings=None, query="enforce"):
    settings = settings or load_settings(["storage.root=/srv/root"], environment={}, with_default_file=False)
    with pytest.raises(MutationQuotaError) as raised, with_operator_advice(settings):
        raise QueryFailed(query, text, batch=7)
    printed = str(raised.value)
    assert "\n" not in printed
    assert (raised.value.query, raised.value.batch) == (query, 7)
    return printed


def test_unreadable_state_in_s3_is_reported_as_the_stores_problem():
    """Discarding the state would forgive all debts."""
    cause = (
        "Caused by: java.net.ConnectException: open on s3a://bucket/root/checkpoints/enforce/v2/state: "
        "SdkClientException: Unable to execute HTTP request: Connection refused\n"
        "Caused by: software.amazon.awssdk.core.exception.SdkClientException: Unable to execute HTTP request\n"
        "Caused by: java.io.EOFException: the end\n"
    )
    printed = advice(LOADING + cause, store_settings(9000))
    assert printed.startswith("enforce failed: s3a://bucket/root cannot be used: http://127.0.0.1:9000 does not answer")
    assert printed.endswith("then start it again: it continues from its checkpoint, and nothing is lost")
    assert "damaged" not in printed
    assert "--reset-state" not in printed


@pytest.mark.parametrize(
    "cause",
    [
        "Caused by: java.io.IOException: Input/output error",
        "Caused by: org.apache.hadoop.fs.s3a.AWSStatus500Exception: open on s3a://bucket/root: Internal",
    ],
)
@pytest.mark.parametrize("settings", [None, store_settings(9000)], ids=["disk", "s3"])
def test_unreadable_state_is_not_mistaken_for_damaged(cause, settings):
    printed = advice(LOADING + cause, settings)
    assert "damaged" not in printed
    assert "--reset-state" not in printed
    assert printed.endswith("then start it again: it continues from its checkpoint, and nothing is lost")


def test_damaged_state_is_to_be_restored_or_discarded():
    printed = advice(f"{LOADING}Caused by: java.io.FileNotFoundException: File /srv/root/checkpoints/x not found")
    assert "the checkpoint of enforce in " in printed
    assert "is damaged; restore it from a backup, or discard the state with `enforce --reset-state`" in printed


def test_a_failure_elsewhere_is_not_attributed_to_s3():
    text = "java.util.concurrent.TimeoutException: Futures timed out after [30 seconds]"
    assert advice(f"Job aborted\nCaused by: {text}\n", store_settings(9000)) == f"enforce failed: {text}"
