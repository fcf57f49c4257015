"""Counts of the logs, runs and answers that were checked."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.evidence.pages import Table
from tests.support.reference.log import Log
from tests.support.replay.engine import Answer
from tests.support.replay.properties import Engine
from tests.support.replay.run import Run

_REFUSED = b'"outcome":"REJECTED"', b'"outcome":"PARTIAL"'
_REPEATED = b'"repeats":{'

_TITLES = {
    "logs": "logs",
    "runs": "runs through Spark",
    "batches": "batches",
    "records": "records",
    "dead_letters": "of these invalid",
    "steps_back": "timestamps that step back within a partition",
    "refused": "requests with a refused topic",
    "repeated": "requests answered as repeats",
    "restarts": "restarts from the checkpoint",
    "crashes": "of these with a batch that was run again",
    "copies": "byte-identical copies of answers, written by batches that were run again",
}


@dataclass(slots=True)
class Counting:
    """An engine that counts its runs; records and answers count again in each run."""

    engine: Engine
    logs: int = 0
    runs: int = 0
    batches: int = 0
    records: int = 0
    dead_letters: int = 0
    steps_back: int = 0
    refused: int = 0
    repeated: int = 0
    restarts: int = 0
    crashes: int = 0
    copies: int = 0

    def answers(self, log: Log, run: Run) -> list[Answer]:
        """Return the answers of the engine."""
        found = self.engine.answers(log, run)
        latest: dict[int, int] = {}
        for entry in log.entries:
            self.steps_back += entry.timestamp < latest.get(entry.partition, entry.timestamp)
            latest[entry.partition] = entry.timestamp
        restarted = run.restart_after is not None
        self.runs += 1
        self.batches += len(run.batches(log))
        self.records += len(log.entries)
        self.dead_letters += sum(entry.request is None for entry in log.entries)
        self.refused += sum(any(refused in value for refused in _REFUSED) for _, _, value in found)
        self.repeated += sum(_REPEATED in value for _, _, value in found)
        self.restarts += restarted
        self.crashes += restarted and run.crash
        self.copies += len(found) - len(log.entries)
        return found


def tally_table(tallies: Mapping[str, Counting]) -> Table:
    """Return a table with a column for each property; a mismatch would have ended the program."""
    rows = [(title, *(f"{getattr(tally, name):,}" for tally in tallies.values())) for name, title in _TITLES.items()]
    mismatches = ("**mismatches**", *("**0**" for _ in tallies))
    return Table("what was checked", ("", *tallies), (*rows, mismatches), words=1)


def mutant_table(noticed: Mapping[str, int | None]) -> Table:
    """Return a table of the mutants and the number of logs until each was noticed."""
    rows = tuple((name, "missed" if logs is None else str(logs)) for name, logs in noticed.items())
    return Table("deliberate defects", ("defect", "noticed at log"), rows, words=1)
