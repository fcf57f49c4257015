"""A storm of requests, first with an undisturbed applier, then with one that is killed again and again."""

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from jobs.enforce.query import start_enforce
from jobs.sandbox.broker import embedded_broker, with_plaintext_cluster
from jobs.services.session import deployment_session
from jobs.spark.queries import stop_after_batch
from quota.kafka.quotas.writer import write_record
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.settings import load_settings
from tests.evidence.storm.storm import Storm
from tests.support.deployment import make_deployment
from tests.support.programs import running_applier

_KILLS = {"an undisturbed applier": 0, "an applier that is killed twenty times": 20}


def main():
    """Run both parts; exit 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0, help="seconds of each part (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=3.0, help="each tenant's mutations/s (default: %(default)s)")
    arguments = parser.parse_args()
    wrong = 0
    for number, (part, kills) in enumerate(_KILLS.items()):
        print(f"{part}: ten applications with forty threads for {arguments.seconds:g} s", flush=True)
        with TemporaryDirectory(prefix="mutation-quota-") as folder:
            report = _part(Path(folder), f"bench-{number}", arguments, kills)
        print(report, flush=True)
        for each in report.wrong:
            print(f"  WRONG: {each}")
        wrong += len(report.wrong)
    sys.exit(1 if wrong else 0)


def _part(folder, name, arguments, kills):
    settings = load_settings([f"storage.root={folder}", "client.applied_by=applier"], environment={})
    with embedded_broker(settings, port=0) as broker:
        settings = make_deployment(with_plaintext_cluster(settings, broker.address), name, folder)
        prepare_topics(settings)
        with deployment_session(settings, "storm", folder / "spark.log") as spark:
            write_record(settings, QuotaRecord(QuotaEntity(None), arguments.rate))
            query = start_enforce(spark, settings)
            between = (0.5, 2 * arguments.seconds / max(kills, 1) - 0.5)
            with running_applier(settings, kills, between, seed=int(time.time())):
                report = Storm(settings).rage(arguments.seconds)
            stop_after_batch([query])
    return report


if __name__ == "__main__":
    main()
