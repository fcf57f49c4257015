"""Metrics endpoints, asked which jobs run."""

from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from prometheus_client.parser import text_string_to_metric_families

from jobs.metrics.definitions import STARTED
from schemas.documents.status import EndpointStatus

_TIMEOUT_SECONDS = 2.0
_open = build_opener(ProxyHandler({})).open
"""Opens a URL by http, past any proxy of the environment: endpoints are of this network."""

_ALL_ADDRESSES = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 an endpoint may listen there


def read_endpoint(address: str) -> EndpointStatus:
    """Ask an endpoint which jobs it serves.

    Args:
        address: its `host:port`.
    """
    host, _, port = address.rpartition(":")
    url = f"http://{_ALL_ADDRESSES.get(host, host)}:{port}"
    try:
        with _open(f"{url}/metrics", timeout=_TIMEOUT_SECONDS) as answer:
            text = answer.read().decode()
        families = text_string_to_metric_families(text)
        jobs = {sample.labels["query"] for each in families if each.name == STARTED.name for sample in each.samples}
        return EndpointStatus(address, ready=_is_ready(url), jobs=sorted(jobs))
    except (OSError, HTTPException, ValueError, KeyError) as error:
        return EndpointStatus(address, error=str(getattr(error, "reason", None) or error))


def _is_ready(url: str) -> bool:
    try:
        with _open(f"{url}/ready", timeout=_TIMEOUT_SECONDS):
            return True
    except HTTPError:
        return False
