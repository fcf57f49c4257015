"""The topics of a deployment: their specs, their creation, and the checks of existing ones.

May import: `quota.admission.identity`, `quota.settings`, `quota.kafka.clients`, `quota.kafka.timing`.
"""
