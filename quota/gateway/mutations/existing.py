"""The topics that exist, as the client may see them."""

from collections.abc import Generator, Sequence
from typing import Any

from quota.gateway.api_keys import ApiKey
from quota.gateway.mutations.operations import Call

NO_ID = bytes(16)
"""The topic id that stands for none."""

_METADATA_VERSION = 12
"""The version of Metadata that the gateway asks in: the first that finds topics by their ids."""
_DELETE_BIT = 1 << 6
"""`AclOperation.DELETE` among the authorized operations of Metadata."""


def describe(
    names: Sequence[str] = (), ids: Sequence[bytes] = ()
) -> Generator[Call, dict[str, Any], list[dict[str, Any]]]:
    """Return the topics that exist and may be seen, with `authorized`: whether the client may delete them."""
    asked = [{"name": each, "topicId": NO_ID} for each in names] + [{"name": None, "topicId": each} for each in ids]
    if not asked:
        return []
    message = {"topics": asked, "allowAutoTopicCreation": False, "includeTopicAuthorizedOperations": True}
    answer = yield Call(ApiKey.METADATA, _METADATA_VERSION, message)
    return [
        {**each, "authorized": bool(each["topicAuthorizedOperations"] & _DELETE_BIT)}
        for each in answer["topics"]
        if not each["errorCode"] and each["name"] is not None
    ]
