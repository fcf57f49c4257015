"""The order of a bucket's requests."""

from quota.admission.order import in_order, position_of
from tests.support.factories import resolved


def sort(requests):
    return in_order(requests, lambda request: position_of(request.record))


def test_requests_of_one_bucket_go_by_time_then_partition_and_in_the_order_of_their_partition():
    """Also if the clock of a partition stepped back."""
    early, late = resolved(1, at=3, partition=1, offset=7), resolved(1, at=9, partition=0, offset=0)
    tie, back = resolved(1, at=9, partition=1, offset=8), resolved(1, at=4, partition=1, offset=9)
    assert sort([back, tie, late, early]) == [early, late, tie, back]
