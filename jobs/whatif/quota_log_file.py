"""A quota log in a file: JSON lines."""

import codecs
from pathlib import Path

from quota.callbacks.timeline import CallbackQuotas
from quota.errors import BadInput, BadRecord
from quota.records.callback import Callbacks
from quota.whatif.simulation import read_quotas


def read_quota_log(file: Path, callbacks: Callbacks) -> CallbackQuotas:
    """The quotas in time that a file makes; one without lines makes none.

    Raises:
        BadInput: it cannot be read; with the line.
    """
    try:
        return read_quotas(file.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n"), callbacks)
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None
    except BadRecord as error:
        raise BadInput(f"{file}:{error}") from None
