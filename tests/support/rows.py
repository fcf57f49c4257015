"""Rows of Kafka records, as tests write them into files and frames."""

import json

from schemas.kafka import RECORD


def kafka_rows(values, *, timestamps=None, partition=0, first_offset=0, topic="mutation-requests"):
    """A row of `schemas.kafka.RECORD` for each value; the key tells the offset."""
    return [
        (
            topic,
            partition,
            first_offset + number,
            (timestamps[number] if timestamps else 0),
            f"key-{first_offset + number}".encode(),
            value,
        )
        for number, value in enumerate(values)
    ]


def frame(spark, rows):
    """A static frame of `schemas.kafka.RECORD`."""
    return spark.createDataFrame(rows, RECORD)


def answers(rows):
    """Answers by offset of their request: (topic, JSON)."""
    decoded = [(row.topic, json.loads(row.value)) for row in rows]
    return {(each["source"]["partition"], each["source"]["offset"]): (topic, each) for topic, each in decoded}
