"""The applier, which carries out admitted mutations, each once.

May import: `quota.records`, `quota.admission.identity`, `quota.client`, `quota.settings`, `quota.kafka`.
"""
