"""Files of a storage root without a JVM, on a local disk or in an object store that deltalake supports."""

import re
import shutil
from pathlib import Path
from typing import Protocol

from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, FileType

from jobs.storage.whole_file import write_whole
from quota.errors import FREE_SPACE, NO_SPACE, StoreError
from quota.settings import Settings
from quota.settings.storage import S3_SCHEME, StorageSettings

_STORE_ERRORS = (OSError, DeltaError)

QUICK = {"max_retries": "1", "retry_timeout": "3s", "connect_timeout": "2s", "timeout": "5s"}
"""deltalake's limits for an object store; `StorageSettings.deltalake` allows it more."""

_CAUSE = "↳"
"""An arrow before each cause in the multi-line errors of deltalake."""
_ORNAMENTS = ("\x1b[31m", "\x1b[0m", _CAUSE)

_ANSWER = re.compile(r"<Error>.*?<Code>([^<]+)</Code>(?:\s*<Message>([^<]*)</Message>)?", re.DOTALL)
"""The code and the message in S3's XML."""
_NO_BUCKET = "NoSuchBucket"

_MAX_REASON = 200


class ReadableFiles(Protocol):
    """Files that can be read; paths are relative to `root`."""

    root: str

    def read(self, path: str) -> str | None:
        """Return the text of a file; None if it does not exist."""

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; empty if it does not exist."""


class Files(ReadableFiles, Protocol):
    """Files that can also be written."""

    def write(self, path: str, text: str) -> None:
        """Write or replace a file atomically."""

    def create(self, path: str, text: str) -> bool:
        """Create a file, and return whether it did not exist; of several concurrent attempts one succeeds."""

    def remove(self, path: str) -> None:
        """Remove a file, or a folder and its content, if it exists."""

    def close(self) -> None:
        """Close the connection."""


def numbered(files: ReadableFiles, folder: str) -> list[int]:
    """Return the names in a folder that are numbers, sorted."""
    return sorted(int(name) for name in files.names(folder) if name.isdecimal())


class LocalFiles:
    """The files of a storage root on a disk of this machine, an absolute path."""

    def __init__(self, root: str) -> None:
        self.root = root

    def read(self, path: str) -> str | None:
        """Return the text of a file; None if it does not exist."""
        try:
            return Path(self.root, path).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(path, error) from None

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; empty if it does not exist."""
        try:
            return sorted(file.name for file in Path(self.root, folder).iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unreadable(folder, error) from None

    def write(self, path: str, text: str) -> None:
        """Write or replace a file atomically."""
        file = self._with_folder(path)
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum of the previous text
        write_whole(file, text)

    def create(self, path: str, text: str) -> bool:
        """Create a file, and return whether it did not exist; of several concurrent attempts one succeeds."""
        try:
            write_whole(self._with_folder(path), text, new=True)
        except FileExistsError:
            return False
        return True

    def remove(self, path: str) -> None:
        """Remove a file, or a folder and its content, if it exists."""
        file = Path(self.root, path)
        if file.is_dir():
            shutil.rmtree(file)
        else:
            file.unlink(missing_ok=True)

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def _with_folder(self, path: str) -> Path:
        file = Path(self.root, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def _unreadable(self, path: str, error: OSError) -> StoreError:
        return store_error(self.root, path, "cannot be read", str(error.strerror))


class ObjectStoreFiles:
    """The files of a storage root that is a URL, read with deltalake like the tables."""

    def __init__(self, storage: StorageSettings, options: dict[str, str]) -> None:
        """Connect to the store; `options` are deltalake's, in addition to those of the settings."""
        self.root = storage.url
        try:
            # Its methods are called directly: called by Arrow, its threads may abort the program at exit.
            self._store = DeltaStorageHandler(self.root, {**storage.deltalake(), **options})
        except _STORE_ERRORS as error:
            raise self._unreadable("", error) from None

    def read(self, path: str) -> str | None:
        """Return the text of a file; None if it does not exist."""
        try:
            (file,) = self._store.get_file_info([path])
            if file.type != FileType.File:
                return None
            stored = self._store._handler.open_input_file(path)  # noqa: SLF001 without Arrow's wrapper
            return bytes(stored.read(stored.size())).decode(errors="replace")
        except _STORE_ERRORS as error:
            raise self._unreadable(path, error) from None

    def names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; empty if it does not exist."""
        try:
            files = self._store.get_file_info_selector(FileSelector(folder, allow_not_found=True))
        except _STORE_ERRORS as error:
            raise self._unreadable(folder, error) from None
        return sorted(file.base_name for file in files)

    def _unreadable(self, path: str, error: Exception) -> StoreError:
        return store_error(self.root, path, "cannot be read", str(error))


def stored_files(settings: Settings, options: dict[str, str] | None = None) -> ReadableFiles:
    """Return the files of a deployment's storage root; `options` are deltalake's, in addition to the settings."""
    url = settings.storage.url
    return ObjectStoreFiles(settings.storage, options or {}) if "://" in url else LocalFiles(url)


def check_store(settings: Settings) -> None:
    """Check within seconds that a root in S3 can be reached; other roots are not checked."""
    if settings.storage.is_s3:
        stored_files(settings, QUICK).read("deployment/1")  # a list is tried again, and then has no reason


def store_error(root: str, path: str, problem: str, text: str) -> StoreError:
    """Return the error about a file or table of a storage root on a disk or in an object store."""
    if NO_SPACE in text:
        advice = FREE_SPACE
    elif root.startswith(S3_SCHEME):
        text = text.rpartition(_CAUSE)[2]  # the causes before it are deltalake's steps
        if answer := _ANSWER.search(text):
            text = ": ".join(filter(None, answer.groups()))
        advice = "; see docs/how-to/platforms/s3.md#errors"
        if _NO_BUCKET in text:
            bucket = root.removeprefix(S3_SCHEME).partition("/")[0]
            advice = f"; create the bucket {bucket}, or set another storage.root"
    else:
        options = ", and storage.options" if "://" in root else ""
        advice = f"; check that storage.root is reachable and complete{options}"
    return StoreError(f"{root}/{path} {problem}: {one_line(text)}{advice}")


def one_line(text: str) -> str:
    """Return the text of a library's error as one line of at most 200 characters."""
    for ornament in _ORNAMENTS:
        text = text.replace(ornament, "")
    lines = (line.strip() for line in text.splitlines())
    return ": ".join(line.rstrip(".") for line in lines if line)[:_MAX_REASON]
