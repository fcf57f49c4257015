"""The file of figures that `make experiment` writes beside its page."""

from pathlib import Path

import msgspec

from quota.errors import BadInput
from quota.whatif.throughput import Throughput


def read_throughput(file: Path) -> Throughput:
    """What the experiment's cluster carried out.

    Raises:
        BadInput: it is not that.
    """
    try:
        return msgspec.json.decode(file.read_bytes(), type=Throughput)
    except OSError as error:
        raise BadInput(f"--experiment {file}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(f"--experiment {file}: not the experiment.json of make experiment: {error}") from None
