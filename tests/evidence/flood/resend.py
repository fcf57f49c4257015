"""A sample of the dead letters, fixed and sent again by the command, as an operator does it."""

import json
import random
import subprocess
from pathlib import Path

from quota.settings import Settings
from tests.evidence.flood.programs import command

_MAX_LISTED = 200


def resend_sample(settings: Settings, folder: Path, count: int) -> list[str]:
    """Fix and send some dead letters whose operation was wrong, and return their new request ids.

    Raises:
        CalledProcessError: A command failed.
    """
    listing = command(
        settings, "dead-letters", "list", "--output", "json", "--limit", str(_MAX_LISTED), "--error", "operation:"
    )
    letters = json.loads(_output(listing))["dead_letters"]
    sample = random.Random(1).sample(letters, min(count, len(letters)))
    sent = []
    for number, letter in enumerate(sample):
        shown = json.loads(_output(command(settings, "dead-letters", "show", letter["id"])))
        sent.append(f"corrected-{number}")
        corrected = folder / f"corrected-{number}.json"
        corrected.write_text(json.dumps(shown | {"operation": "CREATE_TOPICS", "request_id": sent[-1]}))
        _output(command(settings, "dead-letters", "resend", letter["id"], "--value", str(corrected)))
    return sent


def _output(program: list[str]) -> bytes:
    return subprocess.run(program, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
