"""A Prometheus that scrapes a job's metrics and answers queries."""

import json
import shutil
import subprocess
from contextlib import contextmanager
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from jobs.sandbox.broker import free_port
from tests.support.needs import need
from tests.support.waiting import until


@pytest.fixture(scope="session")
def programs():
    """Paths of prometheus and promtool."""
    paths = {name: shutil.which(name) for name in ("prometheus", "promtool")}
    need(all(paths.values()), "no prometheus and promtool to evaluate queries with (apt-get install prometheus)")
    return paths


class Prometheus:
    """A running Prometheus, by its HTTP interface."""

    def __init__(self, port):
        self._port = port

    def ready(self):
        try:
            with urlopen(f"http://127.0.0.1:{self._port}/-/ready", timeout=5) as answer:
                return answer.status == 200
        except URLError:
            return False

    def query(self, path, **parameters):
        """Return the data of an answer; an error in a query raises."""
        with urlopen(f"http://127.0.0.1:{self._port}/api/v1/{path}?{urlencode(parameters)}", timeout=10) as answer:
            return json.load(answer)["data"]


@pytest.fixture(scope="session")
def prometheus(programs, tmp_path_factory):
    """Return a function that runs Prometheus, which scrapes a port and evaluates rules five times a second."""

    @contextmanager
    def _prometheus(scraped, rules):
        folder, port = tmp_path_factory.mktemp("prometheus"), free_port()
        config = {
            "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "200ms"},
            "rule_files": [str(rules)],
            "scrape_configs": [
                {"job_name": "mutation-quota", "static_configs": [{"targets": [f"127.0.0.1:{scraped}"]}]}
            ],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        command = [
            programs["prometheus"],
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
        ]
        command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
        process = subprocess.Popen(command)
        try:
            running = Prometheus(port)
            until(running.ready)
            yield running
        finally:
            process.terminate()
            process.wait(30)

    return _prometheus
