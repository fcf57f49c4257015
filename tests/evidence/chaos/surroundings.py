"""What takes long of the failures around the jobs: a disk that fills up anywhere, a broker that is away for minutes."""

import random
import shutil
import subprocess
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from jobs.enforce.query import start_enforce
from jobs.sandbox.broker import at, embedded_broker
from jobs.spark.failures import with_operator_advice
from jobs.spark.queries import check_queries, stop_after_batch
from jobs.spark.session import end_session, spark_session
from quota.errors import MutationQuotaError
from quota.settings.loading import load_settings
from tests.support.deployments import deployed
from tests.support.operator import Operator

DISK_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What was done around the jobs, and what came of it."""

    fills: int
    """How many times a disk was filled up to some bytes that were left."""
    stops: int
    """How many times a job ended for want of space."""
    away: float
    """For how many seconds the broker was away until the job ended."""
    wrong: list[str]
    """What was lost, forgiven, or not said as it should be."""


def disturb(folder, tell, seconds=240.0, seed=599):
    """Do it to a broker and a session of its own.

    Args:
        folder: for all that it keeps.
        tell: takes a line of progress.
        seconds: about how long to fill disks; the broker that is away takes some three minutes more.
        seed: of how much is left free on each disk.
    """
    with ExitStack() as stack:
        base = load_settings([f"storage.root={folder}/base", "spark.master=local[2]"], environment={})
        broker = stack.enter_context(embedded_broker(base, 0))
        base = at(base, broker.address)
        spark = spark_session(base, "surroundings", folder / "spark.log")
        stack.callback(end_session, spark)
        tell("disks are filled, up to some bytes that are left")
        fills, stops, wrong = _fill_disks(spark, base, folder, seconds, random.Random(seed))
        tell(f"{fills} times a disk was filled, {stops} times a job ended for it; the broker goes away")
        away, more = _stay_away(spark, base, folder, broker)
    return Surroundings(fills, stops, away, wrong + more)


def _fill_disks(spark, base, folder, seconds, chance):
    """Leave some bytes free, enforce and audit until there are none, free the rest, and go on; again and again."""
    deadline = time.monotonic() + seconds
    stops, wrong = 0, []
    with _disk(folder / "disk") as disk:
        operator = Operator(spark, deployed(base, "full", disk))
        names = []
        while time.monotonic() < deadline:
            names.append(f"r{len(names)}")
            operator.ask(names[-1])
            rest = disk / "rest"
            left = chance.randrange(0, 64 * 1024, 4096)
            rest.write_bytes(b"x" * max(shutil.disk_usage(disk).free - left, 0))
            for job in (operator.enforce, operator.audit):
                try:
                    job()
                except MutationQuotaError as error:
                    stops += 1
                    if "free some, then start again" not in str(error):
                        wrong.append(f"{left} bytes left: {error}")
            rest.unlink()
            operator.enforce()
            operator.audit()
            wrong += _differences(operator, names)
    return len(names), stops, wrong


def _differences(operator, names):
    expected = dict(zip(names, [40.0, *[-20.0] * len(names)], strict=False))
    decided = operator.decided
    wrong = [] if decided == expected else [f"decided {decided}, not {expected}"]
    return wrong if operator.kept == sorted(names) else [*wrong, f"kept {operator.kept}"]


def _stay_away(spark, base, folder, broker):
    """Stop the broker until the query gives up; then a new start goes on."""
    operator = Operator(spark, deployed(base, "away", folder / "away"))
    operator.ask("a")
    operator.enforce()
    query = start_enforce(spark, operator.settings)
    broker.stop()
    since = time.monotonic()
    wrong = []
    try:
        with with_operator_advice(operator.settings):
            while query.isActive and time.monotonic() - since < 600:
                time.sleep(0.5)
            check_queries([query])
        wrong.append("the query runs without a broker for ten minutes")
        stop_after_batch([query])
    except MutationQuotaError as error:
        if "does not answer; bring it back, then start again" not in str(error):
            wrong.append(f"broker away: {error}")
    away = time.monotonic() - since
    broker.start()
    operator.ask("b")
    operator.enforce()
    if operator.decided != {"a": 40.0, "b": -20.0}:
        wrong.append(f"after the broker came back: {operator.decided}")
    return away, wrong


@contextmanager
def _disk(folder):
    """A small disk, where root may mount one."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
