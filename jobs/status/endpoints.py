"""Reads from metrics endpoints which jobs run."""

import json
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from prometheus_client.parser import text_string_to_metric_families

from jobs.metrics.families import STARTED
from jobs.metrics.health.probe import READINESS_PATH
from schemas.documents.status import EndpointStatus

_TIMEOUT_SECONDS = 2.0
_open = build_opener(ProxyHandler({})).open
"""Opens an HTTP URL without the proxy of the environment, because endpoints are on the local network."""

_ALL_ADDRESSES = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 an endpoint may listen there


def read_endpoint(address: str) -> EndpointStatus:
    """Return the state of an endpoint (`host:port`), with the jobs that it serves."""
    host, _, port = address.rpartition(":")
    url = f"http://{_ALL_ADDRESSES.get(host, host)}:{port}"
    try:
        probed = _probe(url)
        return EndpointStatus(address, ready=probed["ok"], jobs=_read_jobs(url), reason=probed["reason"])
    except (OSError, HTTPException, ValueError, KeyError) as error:
        cause = getattr(error, "reason", None) or error
        return EndpointStatus(address, error=getattr(cause, "strerror", None) or str(cause))  # without [Errno -2]


def _probe(url: str) -> dict[str, Any]:
    try:
        with _open(f"{url}{READINESS_PATH}", timeout=_TIMEOUT_SECONDS) as answer:
            return json.load(answer)  # type: ignore[no-any-return]
    except HTTPError as error:
        with error:
            return json.load(error)  # type: ignore[no-any-return]


def _read_jobs(url: str) -> list[str]:
    with _open(f"{url}/metrics", timeout=_TIMEOUT_SECONDS) as answer:
        text = answer.read().decode()
    families = text_string_to_metric_families(text)
    return sorted(
        {sample.labels["query"] for family in families if family.name == STARTED for sample in family.samples}
    )
