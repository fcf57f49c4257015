"""Many kills of a gateway under load, with the whole real job behind it."""

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from jobs.enforce.query import start_enforce
from jobs.sandbox.broker import embedded_broker, with_plaintext_cluster
from jobs.services.session import deployment_session
from jobs.spark.queries import stop_after_batch
from quota.kafka.topics.preparation import prepare_topics
from quota.settings import load_settings
from tests.evidence.gateway.kills.run import Plan, prepared, under_kills
from tests.support.deployment import make_deployment


def main() -> None:
    """Run it; exit 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="kills by SIGKILL (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=6, help="clients at a time (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the times and steps (default: the time)")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="mutation-quota-") as folder:
        base = load_settings([f"storage.root={folder}", "spark.master=local[2]"], environment={})
        with embedded_broker(base, port=0) as broker:
            named = make_deployment(with_plaintext_cluster(base, broker.address), "kills", Path(folder))
            settings = prepared(named)
            prepare_topics(settings)
            with deployment_session(settings, "kills", Path(folder, "spark.log")) as spark:
                query = start_enforce(spark, settings)
                report = under_kills(
                    settings,
                    Path(folder, "gateway.log"),
                    Plan(arguments.kills, arguments.clients, seed=arguments.seed),
                    tell=lambda line: print(line, flush=True),
                )
                stop_after_batch([query])
    print(f"seed {arguments.seed}: {report}", flush=True)
    for each in report.wrong:
        print(f"  WRONG: {each}")
    sys.exit(1 if report.wrong else 0)


if __name__ == "__main__":
    main()
