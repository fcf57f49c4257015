"""A deployment whose storage root is in S3."""

import os

import pytest

from tests.support.s3 import BUCKET, CREDENTIALS, s3_server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server, with credentials in the environment as a machine with a role has them."""
    before = dict(os.environ)
    os.environ.update(CREDENTIALS)
    with s3_server(tmp_path_factory.mktemp("s3") / "server.log") as running:
        yield running
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def in_s3(deployment, server):
    """Settings of a deployment of this test, with its root in S3."""
    root = f"s3a://{BUCKET}/{deployment.topics.requests}"
    storage = deployment.storage.model_validate(
        {"root": root, "options": {"fs.s3a.endpoint": server.endpoint}, "lease_seconds": 6}
    )
    return deployment.model_copy(update={"storage": storage})
