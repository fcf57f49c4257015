"""Tests of the clients and of the applier."""
