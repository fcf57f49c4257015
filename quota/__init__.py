"""The domain in plain Python: mutation quotas and the decisions they lead to (KIP-599).

May import: the standard library, msgspec, pydantic and yaml; no Spark, pandas or Arrow, and Kafka only in
`quota.kafka`. A decision is a function of (quota, bucket, request, timestamp): only `quota.kafka` reads a clock, and
only `quota.settings` reads files and the environment, and `quota.wire` the schemas in a kafka-clients jar.
"""

from typing import TYPE_CHECKING

__all__ = ["__version__"]

if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> str:
        """Return `__version__`, which is looked up on demand: importlib.metadata takes 30 ms to import."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import version  # noqa: PLC0415

        return version("kafka-mutation-quota")
