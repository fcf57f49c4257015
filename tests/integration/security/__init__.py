"""Tests with authentication, ACLs and request topics of users."""
