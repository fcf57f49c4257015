"""The cost of 100,000 quotas compared with ten, alternating in one run: `make bench-quotas`."""

import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from jobs.sandbox.broker import embedded_broker
from quota.admission.policy import Policy
from quota.admission.resolve import resolve_quota
from quota.records.entity import QuotaEntity
from quota.records.fields import BEGINNING
from quota.records.quota import Quota
from quota.settings import load_settings
from quota.timeline.change import QuotaChange
from quota.timeline.plan import quota_record
from quota.timeline.quota_file import write_quota_file
from quota.timeline.timeline import QuotaTimeline
from tests.support.programs import command_line

FEW, MANY = 10, 100_000
REQUESTS = 50_000
ROUNDS = 7


def main() -> None:
    """Print a table of figures with few quotas, with many, and their ratio."""
    print(f"| | {FEW} quotas | {MANY:,} quotas | ratio |\n|---|---|---|---|")
    timelines = {count: timeline(count) for count in (FEW, MANY)}
    chance = random.Random(1)
    new = [f"new{number}" for number in range(REQUESTS)]
    known = [f"user{chance.randrange(FEW)}" for _ in range(REQUESTS)]
    for what, users in (
        ("a request of a user seen for the first time", new),
        ("a request of a user seen before", known),
    ):
        show(f"resolve {what}, µs", lambda count, users=users: resolve_us(timelines[count], users))
    with tempfile.TemporaryDirectory() as folder:
        commands(Path(folder))


def timeline(count: int) -> QuotaTimeline:
    """Return a timeline with quotas of many users and the default."""
    quotas = QuotaTimeline()
    for entity, quota in configured(count):
        quotas.add(QuotaChange(entity, quota, BEGINNING))
    return quotas


def configured(count: int) -> list[tuple[QuotaEntity, Quota]]:
    """Return `count` quotas: the default of all users, and quotas of users with a client-id."""
    of_users = [(QuotaEntity(f"user{number}", "app"), Quota(5.0)) for number in range(count - 1)]
    return [(QuotaEntity(None), Quota(5.0)), *of_users]


def resolve_us(quotas: QuotaTimeline, users: list[str]) -> float:
    """Return the µs of a request; a quota change clears the cache of the round before."""
    quotas.add(QuotaChange(QuotaEntity("nobody"), None, BEGINNING))
    started = time.perf_counter()
    for user in users:
        resolve_quota(user, "app", 0, quotas, Policy())
    return (time.perf_counter() - started) / len(users) * 1e6


def commands(folder: Path) -> None:
    """Time the commands as an operator runs them, on a real broker, from start to end of the process."""
    settings = load_settings([f"storage.root={folder}"], environment={})
    with embedded_broker(settings, port=0) as broker:

        def run(count: int, *args: str) -> float:
            options = ["--set", f"topics.quotas=quotas-{count}", "--set", f"kafka.bootstrap_servers={broker.address}"]
            program = command_line(*options, "quotas", *args)
            started = time.perf_counter()
            subprocess.run(program, check=True, stdout=subprocess.DEVNULL)
            return time.perf_counter() - started

        for count in (FEW, MANY):
            (folder / f"{count}.yaml").write_text(write_quota_file(quota_record(*each) for each in configured(count)))
        apply = ("apply", "--yes")
        show("quotas apply FILE, s", lambda count: run(count, *apply, str(folder / f"{count}.yaml")), rounds=1)
        show("quotas resolve, s", lambda count: run(count, "resolve", "--user", "user7", "--client", "app"))
        show("quotas describe, s", lambda count: run(count, "describe"))


def show(what: str, measure: Callable[[int], float], rounds: int = ROUNDS) -> None:
    """Print one row: the medians of `rounds` rounds, and their ratio."""
    measured: dict[int, list[float]] = {FEW: [], MANY: []}
    for _ in range(rounds):
        for count, times in measured.items():
            times.append(measure(count))
    few, many = (statistics.median(times) for times in measured.values())
    print(f"| {what} | {few:.2f} | {many:.2f} | {many / few:.2f} |", flush=True)


if __name__ == "__main__":
    main()
