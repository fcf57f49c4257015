"""A deployment whose storage root is a folder of the test, and a port that is in use."""

import socket

import pytest

from quota.settings import load_settings


@pytest.fixture
def settings(tmp_path):
    return load_settings([f"storage.root={tmp_path}"], environment={}, with_default_file=False)


@pytest.fixture
def port_in_use():
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]
