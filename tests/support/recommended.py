"""The requests that tests of recommendations size quotas for, and the ground rules by which they do."""

from quota.records.entity import QuotaEntity
from quota.records.quota_log import Window
from quota.whatif.recommendation import SizingInput
from tests.support.checkout import CHECKOUT
from tests.support.factories import PERMISSIVE
from tests.support.factories import request_after as at

PAGE = (CHECKOUT / "docs/how-to/recommend.md").read_text()
GROUND = SizingInput(capacity=100.0, reserve=0.2, over_allocation=None, window=Window())

REQUESTS = [
    at(0, 50, 5, client_id="a", request_id="twice"),  # of 55: before the second topic 50
    at(0, 50, 5, client_id="a", request_id="twice"),  # paid for in the audit; 105 in a file
    at(1000, 11, client_id="b", request_id="b"),  # 55 in 12 s in the audit; 121 in a file
    at(1000, 99, validate_only=True, request_id="v"),
    at(2000, 22, user="bob", client_id="b", api_version=PERMISSIVE, request_id="o"),
    at(3000, 99, user="admin", request_id="x"),
    at(4000, 7, user="carol", validate_only=True, request_id="w"),
]
ALICE, BOB = QuotaEntity("alice"), QuotaEntity("bob")
