"""The reason of a failure is the most specific line of a long text of Spark's."""

import pytest

from jobs.spark.failures import reason_in

DENIED = "org.apache.hadoop.security.AccessControlException: Permission denied: user=spark, access=WRITE"
JAVA = f"An error occurred while calling o55.create.\n: {DENIED}\n\tat org.apache.hadoop.fs.Fs.create(Fs.java:1)\n"
PYTHON = 'Traceback (most recent call last):\n  File "worker.py", line 1, in main\n'


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
