"""Tests of the dashboard's queries and the alerts, evaluated by Prometheus."""
