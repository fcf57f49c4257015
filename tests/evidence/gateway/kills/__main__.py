"""Kills a gateway under load many times, with the complete job: `python -m tests.evidence.gateway.kills`."""

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
from tests.evidence.gateway.kills.page import figures, page
from tests.evidence.gateway.kills.run import Plan, prepared, under_kills
from tests.evidence.pages import progress, terminal, write_page
from tests.support.deployment import make_deployment


def main() -> None:
    """Run the experiment; exit 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="kills by SIGKILL (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=6, help="concurrent clients (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the times and steps (default: the time)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for gateway-kills.md")
    arguments = parser.parse_args()
    plan = Plan(arguments.kills, arguments.clients, seed=arguments.seed)
    console = terminal(120)
    with TemporaryDirectory(prefix="mutation-quota-") as folder:
        base = load_settings([f"storage.root={folder}", "spark.master=local[2]"], environment={})
        with embedded_broker(base, port=0) as broker:
            named = make_deployment(with_plaintext_cluster(base, broker.address), "kills", Path(folder))
            settings = prepared(named)
            prepare_topics(settings)
            with deployment_session(settings, "kills", Path(folder, "spark.log")) as run:
                query = start_enforce(run)
                report = under_kills(settings, Path(folder, "gateway.log"), plan, progress(console))
                stop_after_batch([query])
    console.print(figures(report).drawn())
    for each in report.wrong:
        console.print(f"wrong: {each}", highlight=False)
    if arguments.out:
        write_page(arguments.out / "gateway-kills.md", page(report, plan), console)
    sys.exit(1 if report.wrong else 0)


if __name__ == "__main__":
    main()
