"""The verdict on foreign tests: what passes at the broker passes at the gateway, or has its reason."""

import sys

from tests.evidence.peers.__main__ import REASONS, WHOLE, merged, results
from tests.evidence.peers.suites import Outcome, in_java

SUITE, EXPLAINED = next(iter(REASONS))
CLUSTER = "[1] Type=Raft-Combined, MetadataVersion=4.4-IV0,BrokerSecurityProtocol=PLAINTEXT"


def outcomes(**of_tests):
    return [Outcome(test, outcome, f"why {test}") for test, outcome in of_tests.items()]


def test_a_difference_is_wrong_unless_it_has_a_reason_or_the_broker_fails_too():
    direct = outcomes(**{EXPLAINED: "passed", "a": "passed", "b": "failed", "c": "passed", "d": "passed"})
    through = outcomes(**{EXPLAINED: "failed", "a": "passed", "b": "skipped", "c": "failed"})
    seen = results({SUITE: (direct, through)})
    assert seen["wrong"] == [f"{SUITE} c: failed: why c", f"{SUITE} d: not run: why d"]
    assert [row["test"] for row in seen["exceptions"]] == ["b", "c", "d", EXPLAINED]
    assert (seen["tests"], seen["pass_at_broker"], seen["pass_at_gateway"]) == (5, 4, 1)


def test_a_test_that_passes_when_it_is_repeated_counts_and_says_so():
    """The third one passes twice, as a part of a test that is repeated as a whole."""
    direct, through = outcomes(a="passed", b="passed", c="passed"), outcomes(a="failed", b="failed", c="passed")
    repeated = [*outcomes(a="passed", c="passed"), Outcome("b", "failed", "again")]
    seen = results({SUITE: (direct, through + repeated)})
    assert seen["wrong"] == [f"{SUITE} b: failed: again"]
    assert [row["test"] for row in seen["exceptions"]] == ["b"]
    assert (seen["pass_at_gateway"], seen["repeated"]) == (2, 1)
    assert seen["suites"][0]["outcomes"][0]["gateway"] == "passed when repeated"


def test_a_suite_that_ends_with_an_error_is_wrong_also_at_the_broker():
    seen = results({SUITE: (outcomes(**{"a": "passed", WHOLE: "failed"}), outcomes(a="passed"))})
    assert seen["wrong"] == [f"{SUITE} {WHOLE}: not run: why {WHOLE}"]


def test_a_suite_without_tests_is_wrong():
    """`go test` ends without an outcome if the package cannot be compiled."""
    assert results({SUITE: ([], [])})["wrong"] == [f"{SUITE}: no test was run"]


def test_a_suite_that_runs_again_replaces_itself_and_the_verdict_is_of_all():
    earlier = results({SUITE: (outcomes(a="passed"), outcomes(a="failed")), "other": (outcomes(b="passed"),) * 2})
    seen = merged(earlier, results({SUITE: (outcomes(a="passed"),) * 2}))
    assert [(suite["suite"], suite["pass_at_gateway"]) for suite in seen["suites"]] == [(SUITE, 1), ("other", 1)]
    assert (seen["tests"], seen["pass_at_gateway"], seen["exceptions"], seen["wrong"]) == (2, 2, [], [])


def test_an_invocation_is_named_by_its_number_and_the_kind_of_its_brokers():
    seen = results({SUITE: (outcomes(**{f"{EXPLAINED} {CLUSTER}": "passed"}), [])})
    assert [row["test"] for row in seen["exceptions"]] == [f"{EXPLAINED} [1] Raft-Combined"]
    assert seen["wrong"] == []


JVM = """\
import json, sys
for test in sys.argv[1:]:
    outcome = "passed" if test.startswith("uid:") or test == "class:good" else "failed"
    print("PEERS " + json.dumps({"id": test.partition(":")[2], "test": test[-4:], "outcome": outcome, "detail": ""}))
"""


def test_tests_that_fail_are_run_once_more_and_no_others(tmp_path):
    seen = in_java([sys.executable, "-c", JVM], ["class:good", "class:late"], tmp_path, None)
    assert [(each.test, each.outcome) for each in seen] == [("good", "passed"), ("late", "failed"), ("late", "passed")]
