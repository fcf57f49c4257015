"""What is read from files, and read again when they change."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

_log = logging.getLogger(__name__)

_T = TypeVar("_T")


class Watched(Generic[_T]):
    """The newest content of files that could be used."""

    def __init__(self, name: str, files: Sequence[str | None], load: Callable[[], _T]) -> None:
        """Load the content, which must be usable now; `refresh` keeps the earlier one instead."""
        self._name = name
        self._files = [Path(file) for file in files if file]
        self._load = load
        self._state = self._failed = self._present()
        self.value = load()

    def refresh(self) -> None:
        """Load the content again if the files have changed; if it cannot be used, the earlier one stays.

        It is tried again then: the reason may be another one than the content, such as too many open files.
        """
        state = self._present()
        if state == self._state:
            return
        try:
            self.value = self._load()
        except Exception as error:  # noqa: BLE001 what others write must not end the gateway
            if state != self._failed:
                _log.warning("the earlier %s remains in use: %s", self._name, error)
            self._failed = state
        else:
            self._state = state
            _log.info("gateway: the %s %s was read again", self._name, self._files[0])

    def _present(self) -> list[tuple[int, int] | None]:
        """Return what changes when the files do, also if they are replaced by links to others."""
        return [_state_of(file) for file in self._files]


def _state_of(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
