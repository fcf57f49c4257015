"""The reason of a failure is the most specific line of a long text of Spark's."""

import pytest

from jobs.spark.failures import QueryFailed, reason_in, with_operator_advice
from quota.settings import load_settings

DENIED = "org.apache.hadoop.security.AccessControlException: Permission denied: user=spark, access=WRITE"
JAVA = f"An error occurred while calling o55.create.\n: {DENIED}\n\tat org.apache.hadoop.fs.Fs.create(Fs.java:1)\n"
PYTHON = 'Traceback (most recent call last):\n  File "worker.py", line 1, in main\n'

LOADING = (
    "[STREAM_FAILED] Query [id = a, runId = b] terminated with exception: Job aborted due to stage failure: "
    "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state. SQLSTATE: 58030\n"
    "\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotLoadStore(QueryExecutionErrors.scala:2184)\n"
    "FlatMapGroupsInPandasWithState fill(bucket#1)#2, Update, NoTimeout\n"
    "Caused by: java.io.IOException: Input/output error\n"
)
"""What Spark reports, with a part of the query's plan, of any error while it loads state."""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(JAVA, DENIED, id="an error of the JVM, without a cause"),
        pytest.param(
            f"{JAVA}Caused by: java.io.EOFException: the end\n", "java.io.EOFException: the end", id="a cause"
        ),
        pytest.param(
            f"Job aborted\n{PYTHON}py4j.protocol.Py4JJavaError: {JAVA}", DENIED, id="an error of the JVM in Python"
        ),
        pytest.param(f"Job aborted\n{PYTHON}KeyError: 'user'\n", "KeyError: 'user'", id="an error of a worker"),
        pytest.param(
            f"Job aborted\n{PYTHON}quota.errors.ClusterError: cannot reach Kafka at a:9092\n",
            "cannot reach Kafka at a:9092",
            id="an error of ours",
        ),
        pytest.param("[STREAM_FAILED] terminated:\n\tat a.B.c(B.java:1)\n", "[STREAM_FAILED] terminated", id="else"),
    ],
)
def test_the_reason_of_a_failure_is_its_most_specific_line(text, reason):
    assert reason_in(text) == reason


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


@pytest.mark.parametrize("error", ["quota.errors.ClusterError", "quota.errors.StoreError"])
def test_an_error_of_our_own_says_itself_what_to_do(error):
    assert advised(f"Traceback (most recent call last):\n  File x\n{error}: no; do this\n") == (
        "enforce failed: no; do this"
    )


def test_the_advice_about_a_full_disk_is_there_once():
    text = "quota.errors.StoreError: /srv/root/x: No space left on device; free some space there"
    assert advised(text) == (
        "enforce failed: /srv/root/x: No space left on device; no space is left in /srv/root or in Spark's working "
        "folder (spark.local.dir); free some, then start it again: it continues from its checkpoint, and nothing is "
        "lost"
    )
