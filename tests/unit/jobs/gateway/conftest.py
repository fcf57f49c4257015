"""Certificates of all tests of TLS: of a gateway, of brokers, and renewed ones."""

import pytest

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


def relink(path, target):
    """Have a link name another file, as Kubernetes renews certificates."""
    path.unlink(missing_ok=True)
    path.symlink_to(target)


async def hang_up(_reader, writer):
    """Serve a client that is only to connect."""
    writer.close()
