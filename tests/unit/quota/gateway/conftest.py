"""A client's channel to a cluster without sockets."""

import pytest

from tests.unit.quota.gateway.play import Play


@pytest.fixture
def play(protocol):
    """Return a function that opens a channel; see `Play` for its options."""

    def _open(*args, **options):
        return Play(protocol, *args, **options)

    return _open
