"""franz-go, a Go client: the module in `go`, built into a temporary folder."""

import re
import shutil
import subprocess
from pathlib import Path

from quota.errors import MutationQuotaError
from tests.evidence.gateway.ground import Ground, create_topics
from tests.evidence.gateway.observation import Observation, observed
from tests.evidence.gateway.program import Program, Unavailable
from tests.evidence.gateway.sides import Side

_MODULE = Path(__file__).parent / "go"
_TOPICS = {"go-grown-a": 1, "go-grown-b": 1, "go-deleted-a": 11, "go-deleted-b": 1}
_SECONDS = 300


def _prepare(on: Ground) -> None:
    if shutil.which("go") is None:
        raise Unavailable("`go` is not installed")
    command = ["go", "build", "-trimpath", "-o", str(_binary(on)), "."]
    done = subprocess.run(command, cwd=_MODULE, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MutationQuotaError(f"go build: {done.stderr[-2000:]}")
    create_topics(on, {side.topic(name): count for side in on.sides for name, count in _TOPICS.items()})


def _binary(on: Ground) -> Path:
    return on.folder / "franz"


def _play(on: Ground, side: Side, first: int) -> list[Observation]:
    return observed(side, "franz", [_binary(on), side.name, side.address, str(first)], _SECONDS)


def _version() -> str:
    (franz,) = re.findall(r"franz-go (v\S+)", (_MODULE / "go.mod").read_text())
    go = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout.strip()
    return f"franz-go {franz} ({go})"


FRANZ_GO = Program(
    name="franz-go",
    about="its `kadm` client; it reports the throttle time to a hook, and returns error 89 without a retry",
    users=3,
    play=_play,
    prepare=_prepare,
    version=_version,
)
