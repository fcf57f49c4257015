"""Records request logs of real brokers, and what their clients saw: the test data of `observe`."""

import argparse
import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from quota.errors import MutationQuotaError
from tests.evidence.request_logs import logs
from tests.evidence.request_logs.cluster import Cluster, running
from tests.evidence.request_logs.course import drive
from tests.evidence.request_logs.drive import Drive
from tests.evidence.request_logs.parts.plain import BEFORE
from tests.evidence.request_logs.properties import DEFAULT_PARTITIONS, QUOTA_WINDOWS
from tests.evidence.request_logs.setups import SET_UPS, SetUp
from tests.support.checkout import CHECKOUT

_OUT = CHECKOUT / "tests/data/request_logs"


def main() -> None:
    """Run the program; an error is one line on standard error."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = _options()
    try:
        for set_up in SET_UPS:
            if set_up.version in options.versions:
                print(set_up.about, flush=True)
                _make(set_up, options.out)
    except MutationQuotaError as error:
        sys.exit(f"request logs: {error}")
    except KeyboardInterrupt:
        sys.exit("request logs: interrupted")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.evidence.request_logs", description=__doc__)
    versions = sorted({each.version for each in SET_UPS})
    parser.add_argument(
        "--versions", nargs="+", choices=versions, default=versions, help="versions of Kafka (default: all)"
    )
    parser.add_argument("--out", type=Path, default=_OUT, metavar="FOLDER", help="(default: tests/data/request_logs)")
    return parser.parse_args()


def _make(set_up: SetUp, out: Path) -> None:
    """Run a cluster, send it all requests, and replace its test data."""
    with tempfile.TemporaryDirectory(prefix="request-logs-") as folder:
        begun: dict[str, int] = {}
        with running(set_up, Path(folder)) as cluster:
            driven = drive(cluster, lambda: begun.update(logs.sizes(cluster.nodes)))
        target = out / set_up.name
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        logs.keep(cluster.nodes, begun, target)
    (target / "driven.json").write_text(_driven(cluster, driven))
    (target / "README.md").write_text(f"{set_up.about}, time zone {cluster.time_zone}.\n")


def _driven(cluster: Cluster, driven: Drive) -> str:
    """Return the record as JSON, with one request per line."""
    head = {
        "kafka": cluster.set_up.version,
        "layout": cluster.set_up.layout.value,
        "time_zone": cluster.time_zone,
        "default_partitions": DEFAULT_PARTITIONS,
        "quota_windows": QUOTA_WINDOWS,
        "before": BEFORE,
    }
    fields = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    requests = ",\n".join(json.dumps(each, ensure_ascii=False) for each in driven.requests)
    return "{\n" + ",\n".join([*fields, f'"requests": [\n{requests}\n]']) + "\n}\n"


if __name__ == "__main__":
    main()
