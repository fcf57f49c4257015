"""Clients of four kinds over TLS for hours, while the gateway's certificate, the broker and the job change."""
