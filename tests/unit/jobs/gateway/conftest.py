"""Certificates of all tests of TLS: of a gateway, of brokers, and renewed ones."""

from types import SimpleNamespace

import pytest

from jobs.gateway.encryption import BrokerSide, Encryption
from jobs.gateway.watched import Watched
from quota.settings.connection import Security
from tests.support.broker import Authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture(scope="session")
def certificates(authority):
    """The authority, and a certificate for this machine."""
    return authority, authority.sign("broker", "127.0.0.1")


def own_certificate(authority):
    """Return the settings of a gateway with a certificate for this machine."""
    own = authority.sign("gateway", "127.0.0.1")
    return {"ssl_certificate_location": str(own.path), "ssl_key_location": str(own.key)}


def unchanging(security):
    """Return the settings that give this security, from no file."""
    return SimpleNamespace(security=security, files=[])


def trusting_brokers(context, **more):
    """Return the encryption of a gateway that connects to brokers with a context."""
    return Encryption(brokers=Watched("", [], lambda: BrokerSide(Security(), context)), **more)


def relink(path, target):
    """Have a link name another file, as Kubernetes renews certificates."""
    path.unlink(missing_ok=True)
    path.symlink_to(target)


async def hang_up(_reader, writer):
    """Serve a client that is only to connect."""
    writer.close()
