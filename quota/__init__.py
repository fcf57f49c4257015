"""The domain in plain Python: what a mutation quota is and what it decides (KIP-599).

No Spark, pandas or Kafka in here and no clock: a decision is a function of (quota, bucket,
request, now). `quota.kafka` is the one part that talks to Kafka, `quota.settings.loading` reads a file.
"""
