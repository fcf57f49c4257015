"""A deployment whose storage root is in S3."""

import os
from unittest.mock import patch

import pytest

from tests.support.s3 import BUCKET, CREDENTIALS, s3_server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server, with credentials in the environment as a machine with a role has them."""
    with patch.dict(os.environ, CREDENTIALS), s3_server(tmp_path_factory.mktemp("s3") / "server.log") as running:
        yield running


@pytest.fixture
def in_s3(deployment, server):
    """Settings of a deployment of this test, with its root in S3.

    They hold the credentials, because workers of the session's Spark may have started before the environment had them.
    """
    root = f"s3a://{BUCKET}/{deployment.topics.requests}"
    key, secret = CREDENTIALS.values()
    options = {"fs.s3a.endpoint": server.endpoint, "fs.s3a.access.key": key, "fs.s3a.secret.key": secret}
    storage = deployment.storage.model_validate({"root": root, "options": options, "lease_seconds": 15})
    return deployment.model_copy(update={"storage": storage})
