"""Errors of the files and tables of a storage root as one line, with the page that says what to check."""

from quota.errors import MutationQuotaError
from quota.settings.storage import S3_SCHEME

NO_SPACE = "No space left on device"
"""In errors of a full disk."""

FREE_SPACE = "; free some space there"
"""The end of the message about a table that needs more space."""

_CAUSE = "↳"
"""An arrow before each cause in the multi-line errors of deltalake."""
_ORNAMENTS = ("\x1b[31m", "\x1b[0m", _CAUSE)
"""The arrows, and their colours."""

_MAX_REASON = 200


class StoreError(MutationQuotaError):
    """A file or table of a storage root cannot be read or written."""


def store_error(root: str, path: str, problem: str, text: str) -> StoreError:
    """Return the error about a file or table of a storage root on a disk or in an object store."""
    if NO_SPACE in text:
        advice = FREE_SPACE
    elif root.startswith(S3_SCHEME):
        text = text.rpartition(_CAUSE)[2]  # the causes before it are deltalake's steps
        advice = "; see docs/how-to/platforms/s3.md#errors"
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
