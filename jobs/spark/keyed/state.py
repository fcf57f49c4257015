"""The state of a key, as stages use it and in Spark's format."""

import json
import pickle
from functools import lru_cache
from typing import Any

from pyspark.serializers import pickle_protocol
from pyspark.sql.streaming.state import GroupState

Value = tuple[Any, ...]
"""A row of the state's schema."""

StateRow = tuple[str | None, bytes | None, bytes | None, int | None]
"""A state that is returned to Spark: properties, key, value, old timeout; all None in padding rows."""


class SentState:
    """The state of a key as sent by Spark, without a timeout; it is decoded on first use."""

    __slots__ = ("_key", "_properties", "_sent", "_updated", "_value")

    def __init__(self, properties: str, key: bytes, sent: bytes | None) -> None:
        """Wrap a state, of which `sent` is the pickled value, None if the key has no state; nothing is decoded yet."""
        self._properties = properties
        self._key = key
        self._sent = sent
        self._value: Value | None = None
        self._updated = False

    @property
    def exists(self) -> bool:
        """Whether the key has a state."""
        return self._updated or (self._sent is not None and _is_defined(self._properties))

    @property
    def get(self) -> Value:
        """The state, if the key has one."""
        if self._value is None:
            if self._sent is None or not self.exists:
                raise ValueError("the key has no state")
            self._value = tuple(pickle.loads(self._sent))  # noqa: S301 Spark returns what this class pickled
        return self._value

    def update(self, newValue: Value) -> None:  # noqa: N803 as in GroupState
        """Replace the state."""
        self._value, self._updated = tuple(newValue), True

    def row(self) -> StateRow:
        """Return the state for Spark, which reads the value only if it was updated."""
        properties, timeout = _returned(self._properties, updated=self._updated)
        value = pickle.dumps(self._value, pickle_protocol) if self._updated else None
        return properties, self._key, value, timeout


KeyState = SentState | GroupState
"""The state of a key: of the project's own stages, or of PySpark."""


@lru_cache(maxsize=64)
def _is_defined(properties: str) -> bool:
    """Return whether a state exists; cached, because the keys of a batch have only two different properties."""
    return bool(json.loads(properties)["defined"])


@lru_cache(maxsize=64)
def _returned(properties: str, *, updated: bool) -> tuple[str, int]:
    """Return the properties of a state after the call, in the format of `GroupState`, and its old timeout."""
    fields = {**json.loads(properties), "optionalValue": None}
    state = GroupState(**fields, keyAsUnsafe=b"", valueSchema=None)  # type: ignore[arg-type]
    if updated:
        state.update(())
    return state.json(), state.oldTimeoutTimestamp
