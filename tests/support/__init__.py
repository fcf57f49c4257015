"""Support shared by tests and evidence, a module per subject: a deployment, a broker, programs, records, tables."""
