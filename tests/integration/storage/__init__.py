"""Tests of storage roots that are not on a disk of this machine."""
