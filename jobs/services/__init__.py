"""The services: enforce, audit, applier, gateway, dashboard, observe follow and quotas push --follow."""
