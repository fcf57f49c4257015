"""Long failures around the jobs: a disk that fills up at any point, and a broker that is away for minutes."""

import random
import shutil
import time
from contextlib import ExitStack, suppress

from jobs.enforce.query import start_enforce
from jobs.sandbox.broker import embedded_broker, with_plaintext_cluster
from jobs.spark.failures import with_operator_advice
from jobs.spark.queries import check_queries, stop_after_batch
from jobs.spark.session import spark_session
from jobs.storage.files import DeploymentSession
from quota.errors import MutationQuotaError
from quota.settings import load_settings
from tests.support.deployment import make_deployment
from tests.support.full_disk import small_disk
from tests.support.operator import Operator


def disturb(folder, notify, seconds):
    """Disturb jobs on a broker and a Spark session of their own.

    Return how often a disk was filled up to its last bytes, how often a job exited for lack of space, the seconds from
    the broker's stop to the end of the job, and losses, forgiven debts and wrong messages.
    """
    with ExitStack() as stack:
        base = load_settings([f"storage.root={folder}/base", "spark.master=local[2]"], environment={})
        broker = stack.enter_context(embedded_broker(base, 0))
        base = with_plaintext_cluster(base, broker.address)
        spark = stack.enter_context(spark_session(base, "surroundings", folder / "spark.log"))
        notify("disks are filled, up to some bytes that are left")
        fills, stops, wrong = _fill_disks(spark, base, folder, seconds, random.Random(599))
        notify(f"{fills} times a disk was filled, {stops} times a job ended for it; the broker goes away")
        outage, more = _stop_broker(spark, base, folder, broker)
    return fills, stops, outage, wrong + more


def _fill_disks(spark, base, folder, seconds, chance):
    """Repeatedly fill a disk up to its last bytes, enforce and audit, then free space and continue."""
    deadline = time.monotonic() + seconds
    stops, wrong = 0, []
    with small_disk(folder / "disk", 16) as disk:
        operator = Operator(spark, make_deployment(base, "full", disk))
        names = []
        while time.monotonic() < deadline:
            names.append(f"r{len(names)}")
            operator.request(names[-1])
            rest = disk / "rest"
            left = chance.randrange(0, 64 * 1024, 4096)
            _fill(rest, left)
            for job in (operator.enforce, operator.audit):
                try:
                    job()
                except MutationQuotaError as error:
                    stops += 1
                    if str(error).count("free some") != 1:
                        wrong.append(f"{left} bytes left: {error}")
            rest.unlink()
            operator.enforce()
            operator.audit()
            wrong += _differences(operator, names)
    return len(names), stops, wrong


def _fill(path, left):
    """Write a file that leaves `left` bytes free on its disk, or fewer if Spark's threads write at the same time."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        file.write(b"x" * max(shutil.disk_usage(path.parent).free - left, 0))


def _differences(operator, names):
    expected = dict(zip(names, [40.0, *[-20.0] * len(names)], strict=False))
    decided = operator.decided
    wrong = [] if decided == expected else [f"decided {decided}, not {expected}"]
    return wrong if operator.audited == sorted(names) else [*wrong, f"kept {operator.audited}"]


def _stop_broker(spark, base, folder, broker):
    """Stop the broker until the query gives up; it must continue after a restart."""
    operator = Operator(spark, make_deployment(base, "away", folder / "away"))
    operator.request("a")
    operator.enforce()
    query = start_enforce(DeploymentSession.on(spark, operator.settings))
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
        if "does not respond; restore it, then start it again" not in str(error):
            wrong.append(f"broker away: {error}")
    outage = time.monotonic() - since
    broker.start()
    operator.request("b")
    operator.enforce()
    if operator.decided != {"a": 40.0, "b": -20.0}:
        wrong.append(f"after the broker came back: {operator.decided}")
    return outage, wrong
