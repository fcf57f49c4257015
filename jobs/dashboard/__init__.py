"""The dashboard: a live page of requests, tenants and quotas, which reads only the topics."""
