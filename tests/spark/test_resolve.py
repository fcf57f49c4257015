"""The transform that reads and resolves."""

import msgspec
from chispa import assert_df_equality

from jobs.enforce.stages import resolve_requests
from quota.admission.policy import Policy
from quota.records.entity import QuotaEntity
from quota.records.record import BEGINNING
from schemas.buckets import RESOLVED
from tests.support.factories import FixedQuotas, request_json, timeline
from tests.support.rows import frame, kafka_rows, pack_request


def test_each_record_finds_its_bucket_and_quota_as_of_its_timestamp(spark):
    """A quota of 5 from 0 and of 7 from 100; an invalid request; a user without a quota."""
    quotas = FixedQuotas(timeline((QuotaEntity("alice"), 5.0, BEGINNING), (QuotaEntity("alice"), 7.0, 100)))
    early, late, bad, free = request_json(1), request_json(2), b"{", request_json(1, user="bob")
    rows = kafka_rows([early, late, bad, free], timestamps=[99, 100, 100, 100], partition=3)

    actual = resolve_requests(frame(spark, rows), quotas, Policy(1024))

    def resolution(rate, since):
        quota = f'{{"controller_mutation_rate":{rate}}}'
        return f'[["alice","",[]],{{"quota":{quota},"since":{since}}},{{"user":"alice"}},null,false,false,null]'

    unlimited = '[["","",[]],null,null,null,false,false,null]'
    no_object = "value: not JSON: Input data was truncated (value: {)"
    expected = spark.createDataFrame(
        [
            ('["alice",""]', pack_request(rows[0], None, resolution(5.0, BEGINNING))),
            ('["alice",""]', pack_request(rows[1], None, resolution(7.0, 100))),
            ("[3]", pack_request(rows[2], no_object, None)),
            ("[3]", pack_request(rows[3], None, unlimited)),
        ],
        RESOLVED,
    )
    assert_df_equality(actual, expected, ignore_row_order=True)


def test_a_record_without_a_broker_timestamp_is_a_dead_letter_and_affects_no_other(spark):
    """It goes through the same two columns, by no bucket; the requests around it are as they would be without it."""
    quotas = FixedQuotas(timeline((QuotaEntity("alice"), 5.0, BEGINNING)))
    rows = kafka_rows([request_json(1)] * 3, timestamps=[5, None, 6])
    resolved = resolve_requests(frame(spark, rows), quotas, Policy()).collect()
    requests = {
        msgspec.msgpack.decode(row.request)[2]: (row.bucket, msgspec.msgpack.decode(row.request)) for row in resolved
    }
    assert [requests[offset][0] for offset in range(3)] == ['["alice",""]', "[0]", '["alice",""]']
    assert requests[1][1][6].startswith("timestamp: set by the producer")
    assert [requests[offset][1][3] for offset in range(3)] == [5, None, 6]
