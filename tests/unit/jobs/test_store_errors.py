"""An error of an object store is one line with the store's reason and the page that explains it, within seconds."""

import pytest

from jobs.storage.stored_files import check_store
from quota.errors import MutationQuotaError
from tests.support.object_store import rejecting_store, store_settings


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (403, "InvalidAccessKeyId", "<Code>InvalidAccessKeyId</Code>"),
        (301, "PermanentRedirect", "Received redirect without LOCATION"),
    ],
)
def test_a_rejection_by_the_store_has_its_reason_and_the_page(status, code, reason):
    with rejecting_store() as store:
        store.answer = (status, code)
        with pytest.raises(MutationQuotaError) as raised:
            check_store(store_settings(store.server_port))
    message = str(raised.value)
    assert message.startswith("s3a://bucket/root/deployment.json cannot be read: ")
    assert message.endswith("; see docs/how-to/platforms/s3.md#errors")
    assert reason in message
    assert "\n" not in message
    assert "\x1b" not in message
    assert "the-secret" not in message
