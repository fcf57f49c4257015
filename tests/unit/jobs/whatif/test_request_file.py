"""The what-ifs on a file of requests, which start no Spark: tenants are sized, and other quotas are tried."""

import gzip
import re

import pytest

from jobs.observe.importing import EXAMPLE
from jobs.whatif.request_file import backtest_file, recommend_from_file
from quota.errors import MutationQuotaError
from quota.whatif.recommendation import Tenancy
from tests.support.deployment import with_sections
from tests.support.example_log import example_lines
from tests.support.factories import START
from tests.support.factories import request_after as at
from tests.support.programs import run
from tests.support.recommended import ALICE, BOB, GROUND, PAGE, REQUESTS

EVER = (None, None)


@pytest.fixture
def write(tmp_path):
    """Write lines into a file, and return its name."""

    def _write(*lines):
        (tmp_path / "requests.jsonl").write_bytes(b"\n".join(lines))
        return str(tmp_path / "requests.jsonl")

    return _write


@pytest.fixture
def settings(base_settings):
    return with_sections(base_settings, quota={"exempt_users": ["admin"]})


def test_tenants_are_sized_by_their_charged_requests(settings, write):
    advice = recommend_from_file(settings, GROUND, Tenancy.USER, EVER, write(*REQUESTS))
    assert advice.before_name == "without quotas"
    assert (advice.before.rejected, advice.before.peak) == (0, 110)
    demands = [tenant.share.demand for tenant in advice.tenants]
    assert [demand.entity for demand in demands] == [ALICE, BOB]
    assert [(demand.mutations, demand.largest) for demand in demands] == [(121, 55), (22, 22)]
    assert [demand.need for demand in demands] == [pytest.approx(105 / 11), 0]
    assert [demand.load for demand in demands] == [pytest.approx(121 / 12), pytest.approx(2)]
    assert advice.rules.load_together == pytest.approx(143 / 13)
    assert advice.after.rejected == 0


def test_a_period_without_charges_is_reported(settings, write):
    message = r"requests\.jsonl has no charged requests in that period$"
    with pytest.raises(MutationQuotaError, match=message):
        recommend_from_file(settings, GROUND, Tenancy.USER, (START + 3000, None), write(*REQUESTS))


FILE = [
    at(0, 60),  # alice has 55: -5
    at(500, 4),  # rejected for 500 ms
    b"no request",
    at(1000, 7),
    at(1500, 9, user="[/b]\x1b[2J"),  # neither markup nor what a terminal obeys
    at(60_000, 1),
]


@pytest.fixture
def backtested(settings, write, tmp_path):
    """Replay lines with 5/s for alice."""
    (tmp_path / "five.yaml").write_text("quotas:\n- {entity: {user: alice}, controller_mutation_rate: 5}\n")

    def _backtested(*lines, since=None, until=None):
        return backtest_file(settings, [f"name=five,quotas={tmp_path}/five.yaml"], since, until, write(*lines))

    return _backtested


def test_requests_of_a_file_are_compared_with_a_cluster_without_quotas(backtested, caplog):
    result = backtested(*FILE, since=START + 500, until=START + 60_000)
    assert result.replay is None
    assert [outcome.name for outcome in result.outcomes] == ["without quotas", "five"]
    without, five = (outcome.load for outcome in result.outcomes)
    assert (without.requests, without.admitted, without.rejected, without.peak) == (3, 4 + 7 + 9, 0, 7 + 9)
    assert (five.admitted, five.rejected, five.newly_rejected, five.throttled_seconds) == (7 + 9, 4, 4, 0.5)
    assert len(caplog.messages) == 1


def test_throttle_times_of_a_sender_that_overlap_count_once_and_end_with_the_period(backtested):
    """K = -300 at 0, so requests from 1,000 on wait until 60,000; at 70,000 it is 50 - 355, which takes 61 s."""
    lines = [at(0, 355), at(5000, 1), at(1000, 1), at(70_000, 355), at(70_001, 1)]
    assert backtested(*lines).outcomes[1].load.throttled_seconds == 59 + 60.999
    assert backtested(*lines, until=START + 80_000).outcomes[1].load.throttled_seconds == 59 + 9.999


def test_a_period_without_requests_is_reported(backtested):
    with pytest.raises(MutationQuotaError, match=r"no decisions to replay: .*requests\.jsonl has none in that period"):
        backtested(*FILE, since=START + 70_000)


def test_the_command_reads_a_file_without_any_tables(tmp_path, write):
    write(*FILE)
    options = ["--requests", "requests.jsonl", "--set", f"storage.root={tmp_path}/root"]
    done = run("backtest", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "requests.jsonl: ignored 1 of 6 lines, which are not requests; line 3: value: not JSON" in done.stderr
    assert "The requests of a file have no decisions; each is compared with a cluster without quotas." in done.stdout
    assert r"'[/b]\x1b[2J / <none>'" in done.stdout
    assert not (tmp_path / "root").exists()


def test_the_example_of_the_page_is_what_the_command_prints(tmp_path):
    requests, said = re.findall(r"```(?:json|text)\n(.*?)```", PAGE, re.DOTALL)[:2]
    (tmp_path / "requests.jsonl").write_text(requests)
    done = run("recommend", "--requests", "requests.jsonl", "--capacity", "100", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line.strip() for line in done.stdout.splitlines() if line.strip()] == [
        line.strip() for line in said.splitlines() if line.strip()
    ]


def test_the_log_that_is_shipped_as_an_example_is_what_its_program_writes():
    assert gzip.decompress(EXAMPLE.read_bytes()) == b"".join(example_lines())
