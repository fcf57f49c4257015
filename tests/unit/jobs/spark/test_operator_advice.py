"""The error of a failed query is one line with advice, or with the page of errors."""

import pytest

from jobs.spark.failures import QueryFailed
from jobs.spark.operator_advice import with_operator_advice
from quota.settings import load_settings

LOADING = (
    "[STREAM_FAILED] Query [id = a, runId = b] terminated with exception: Job aborted due to stage failure: "
    "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state. SQLSTATE: 58030\n"
    "\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotLoadStore(QueryExecutionErrors.scala:2184)\n"
    "FlatMapGroupsInPandasWithState fill(bucket#1)#2, Update, NoTimeout\n"
    "Caused by: java.io.IOException: Input/output error\n"
)
"""What Spark reports, with a part of the query's plan, of any error while it loads state."""


def advised(text):
    settings = load_settings(["storage.root=/srv/root"], environment={}, with_default_file=False)
    with pytest.raises(QueryFailed) as raised, with_operator_advice(settings):
        raise QueryFailed("enforce", text, batch=7)
    assert (raised.value.query, raised.value.batch) == ("enforce", 7)
    return str(raised.value)


def test_state_that_cannot_be_loaded_is_to_be_made_readable_before_it_is_discarded():
    """It need not be damaged, and to discard it would forgive all debts."""
    assert advised(LOADING) == (
        "enforce failed: java.io.IOException: Input/output error; the checkpoint of enforce in /srv/root/checkpoints "
        "cannot be loaded; restore access to it; if it is damaged, restore it from a backup, or discard the state with "
        "`enforce --reset-state`: all buckets are then full, and requests that are still in their topic are decided "
        "again"
    )


def test_another_failure_has_its_last_cause_and_the_page():
    text = "java.util.concurrent.TimeoutException: Futures timed out after [30 seconds]"
    assert advised(f"Job aborted\nCaused by: {text}\n") == (
        f"enforce failed: {text}; see docs/reference/errors.md#spark"
    )


@pytest.mark.parametrize("error", ["quota.errors.ClusterError", "jobs.store_errors.StoreError"])
def test_an_error_of_our_own_says_itself_what_to_do(error):
    assert advised(f"Traceback (most recent call last):\n  File x\n{error}: no; do this\n") == (
        "enforce failed: no; do this"
    )


def test_the_advice_about_a_full_disk_is_there_once():
    text = "jobs.store_errors.StoreError: /srv/root/x: No space left on device; free some space there"
    assert advised(text) == (
        "enforce failed: /srv/root/x: No space left on device; no space is left in /srv/root or in Spark's working "
        "folder (spark.local.dir); free some, then start it again: it continues from its checkpoint, and nothing is "
        "lost"
    )
