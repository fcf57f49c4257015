"""One gateway for many tests, with a stand-in for the enforcing job."""

from types import SimpleNamespace

import pytest

from jobs.sandbox.broker import JAVA_OPTIONS, embedded_broker
from tests.support.deployment import prepared_deployment
from tests.support.gateway import StandIn, running_gateway, wire_client

_BROKER_JAVA = (*JAVA_OPTIONS, "-Xmx1g")
"""A broker takes a large request into its heap as a whole; that of the other tests must not end by it."""


@pytest.fixture(scope="session")
def roomy_broker(base_settings, tmp_path_factory):
    """A broker for requests of any size."""
    data = tmp_path_factory.mktemp("roomy-broker")
    with embedded_broker(base_settings, port=0, data=data, java_options=_BROKER_JAVA) as running:
        yield running


@pytest.fixture(scope="module")
def plain(base_settings, roomy_broker, tmp_path_factory, request):
    """A gateway on a plaintext broker: settings, stand-in, gateway; a module may have its `OPTIONS` and `CONSTANTS`."""
    folder = tmp_path_factory.mktemp("gateway")
    name = request.module.__name__.rpartition(".")[2].replace("_", "-")
    settings = prepared_deployment(base_settings, roomy_broker, name, folder)
    options, constants = (getattr(request.module, name, ()) for name in ("OPTIONS", "CONSTANTS"))
    started = running_gateway(settings, folder / "gateway.log", *options, constants=constants)
    with StandIn(settings) as job, started as gateway:
        yield SimpleNamespace(settings=settings, job=job, gateway=gateway, broker=roomy_broker, folder=folder)


@pytest.fixture
def client(plain):
    """A client of that gateway that writes its frames itself."""
    with wire_client(plain.gateway.port, "good") as connected:
        yield connected
