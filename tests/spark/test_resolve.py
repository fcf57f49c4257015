"""The transform that reads and resolves."""

import msgspec

from jobs.enforce.resolve import resolve_requests
from quota.admission.policy import Policy
from quota.records.entity import QuotaEntity
from quota.records.fields import BEGINNING
from tests.support.factories import FixedQuotas, request_json, timeline
from tests.support.rows import frame, kafka_rows


def test_a_record_without_a_broker_timestamp_is_a_dead_letter_and_affects_no_other(spark):
    """It goes through the same two columns, by no bucket; the requests around it are as they would be without it."""
    quotas = FixedQuotas(timeline((QuotaEntity("alice"), 5.0, BEGINNING)))
    rows = kafka_rows([request_json(1)] * 3, timestamps=[5, None, 6])
    found = resolve_requests(frame(spark, rows), quotas, Policy()).collect()
    requests = {
        msgspec.msgpack.decode(row.request)[2]: (row.bucket, msgspec.msgpack.decode(row.request)) for row in found
    }
    assert [requests[offset][0] for offset in range(3)] == ['["alice",""]', "[0]", '["alice",""]']
    assert requests[1][1][6].startswith("timestamp: set by the producer")
    assert [requests[offset][1][3] for offset in range(3)] == [5, None, 6]
