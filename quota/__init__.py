"""The domain in plain Python: mutation quotas and the decisions they lead to (KIP-599)."""

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
