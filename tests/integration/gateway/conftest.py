"""Gateways for many tests, each with a stand-in for the enforcing job."""

from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from jobs.sandbox.broker import JAVA_OPTIONS, embedded_broker
from tests.support.deployment import prepared_deployment, with_sections
from tests.support.gateway import StandIn, running_gateway, wire_client

_BROKER_JAVA = (*JAVA_OPTIONS, "-Xmx1g")
"""A broker takes a large request into its heap as a whole; that of the other tests must not end by it."""


@pytest.fixture(scope="package")
def roomy_broker(base_settings, tmp_path_factory):
    """A broker for requests of any size."""
    data = tmp_path_factory.mktemp("roomy-broker")
    with embedded_broker(base_settings, port=0, data=data, java_options=_BROKER_JAVA) as running:
        yield running


@pytest.fixture(scope="module")
def serve(base_settings, tmp_path_factory, request):
    """Return a function that starts a gateway of the module on a broker: its settings, its job, where its log is.

    It takes the settings by which the gateway reaches the broker otherwise than without authentication, and constants
    of its program as `command_line` does; and by section what its job needs, too.
    """
    name = request.module.__name__.rpartition(".test_")[2].replace("_", "-")
    with ExitStack() as until_the_end:

        def start(broker, *given, constants=None, **sections):
            folder = tmp_path_factory.mktemp(name)
            settings = with_sections(prepared_deployment(base_settings, broker, name, folder), **sections)
            job = until_the_end.enter_context(StandIn(settings))
            started = running_gateway(settings, folder / "gateway.log", *given, constants=constants)
            gateway = until_the_end.enter_context(started)
            return SimpleNamespace(settings=settings, given=given, folder=folder, job=job, gateway=gateway)

        yield start


@pytest.fixture(scope="module")
def plain(serve, roomy_broker, request):
    """A gateway on a plaintext broker; a module may have its `OPTIONS` and `CONSTANTS`."""
    options, constants = (getattr(request.module, name, ()) for name in ("OPTIONS", "CONSTANTS"))
    served = serve(roomy_broker, *options, constants=constants)
    served.broker = roomy_broker
    return served


@pytest.fixture
def client(plain):
    """A client of that gateway that writes its frames itself."""
    with wire_client(plain.gateway.port, "good") as connected:
        yield connected
