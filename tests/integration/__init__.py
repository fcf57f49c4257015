"""Tests of the jobs, the commands and the clients with a real broker."""
