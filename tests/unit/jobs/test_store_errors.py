"""An error of an object store is one line that says what to do, within seconds."""

import pytest

from jobs.storage.stored_files import check_store
from jobs.store_errors import store_problem, store_problem_among
from quota.errors import MutationQuotaError
from tests.support.object_store import rejecting_store, store_settings


@pytest.fixture(scope="module")
def store():
    """A server that answers everything by the status and code of its attribute `answer`."""
    with rejecting_store() as server:
        yield server


def rejection(port):
    with pytest.raises(MutationQuotaError) as raised:
        check_store(store_settings(port))
    message = str(raised.value)
    assert "\n" not in message
    assert "the-secret" not in message
    assert message.startswith("s3a://bucket/root cannot be used: ")
    return message.removeprefix("s3a://bucket/root cannot be used: ")


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (403, "InvalidAccessKeyId", "the store does not know the access key; check storage.options fs.s3a.access.key"),
        (403, "SignatureDoesNotMatch", "the secret key is not the one of the access key; check storage.options"),
        (403, "AccessDenied", "the store denies access with these credentials; allow them to list the bucket"),
        (400, "ExpiredToken", "the credentials have expired; renew them"),
        (301, "PermanentRedirect", "the bucket is in another region; set storage.options"),
    ],
)
def test_a_rejection_by_the_store_says_what_to_do(store, status, code, expected):
    store.answer = (status, code)
    assert rejection(store.server_port).startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("java.nio.file.AccessDeniedException: s3a://b/r: open s3a://b/r: (Service: S3, Status Code: 403", "denies"),
        ("org.apache.hadoop.fs.s3a.UnknownStoreException: `s3a://b/r': Bucket does not exist", "no such bucket"),
        ("NoAuthWithAWSException: No AWS Credentials provided by Temp", "there are no credentials"),
        ("java.net.ConnectException: Your endpoint configuration is wrong; Connection refused", "does not answer"),
        ("PKIX path building failed: unable to find valid certification path to requested target", "is not accepted"),
    ],
)
def test_later_errors_of_hadoop_and_the_tables_are_recognized_too(text, expected):
    assert expected in store_problem("s3a://b/r", text, None)


def test_other_errors_and_other_roots_are_unchanged():
    assert store_problem("s3a://b/r", "java.lang.IllegalStateException: no", None) is None
    assert store_problem("/srv/root", "Connection refused", None) is None
    assert store_problem("s3a://b/r", "Connection refused", None) is not None


@pytest.mark.parametrize(
    "text",
    [
        "org.apache.hadoop.net.ConnectTimeoutException: getFileStatus on s3a://b/r/x: connection timed out",
        (
            "java.lang.IllegalStateException: no\nCaused by: java.net.ConnectException: Connection refused\n"
            "\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)\n"
            "\tat org.apache.hadoop.fs.s3a.S3AUtils.translateException(S3AUtils.java:215)\n\t... 12 more\n"
        ),
        "OSError: Generic S3 error: error sending request for url (http://other/b/r): client error (Connect)",
    ],
)
def test_an_error_of_the_store_is_found_among_other_causes(text):
    problem = store_problem_among("s3a://b/r", text, "http://minio:9000")
    assert problem == (
        "s3a://b/r cannot be used: http://minio:9000 does not answer; check storage.options fs.s3a.endpoint, and that "
        "the store runs"
    )


@pytest.mark.parametrize(
    "text",
    [
        (
            "No s3a://b/r/checkpoints\nCaused by: java.util.concurrent.TimeoutException: Futures timed out after "
            "[30 seconds]\n\tat org.apache.spark.rpc.RpcTimeout.awaitResult(RpcTimeout.scala:66)"
        ),
        (
            "software.amazon.msk.auth.iam.IAMClientCallbackHandler: no\n"
            "Caused by: software.amazon.awssdk.core.exception.SdkClientException: Unable to load credentials\n"
            "\tSuppressed: software.amazon.awssdk.core.exception.SdkClientException: attempt 1: Connection refused"
        ),
        (
            "Traceback (most recent call last):\n  File x, line 1, in y\n"
            "quota.errors.ClusterError: cannot get a token for client a from https://idp/token: Connection refused\n"
            "\n\tat org.apache.hadoop.fs.s3a.S3AFileSystem.open(S3AFileSystem.java:1)"
        ),
        "org.apache.spark.SparkException: Connection to minio:9092 timed out",
    ],
)
def test_the_failure_of_another_server_is_not_attributed_to_the_store(text):
    assert store_problem("s3a://b/r", text, "http://minio") is not None  # by its words alone
    assert store_problem_among("s3a://b/r", text, "http://minio") is None
