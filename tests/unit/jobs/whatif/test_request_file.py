"""The what-ifs on a file of requests: tenants are sized, and other quotas are tried."""

import codecs
import gzip
import io
import re

import pytest

from jobs.observe.importing import EXAMPLE
from jobs.whatif.candidates import parse_candidates
from jobs.whatif.evaluations import backtest, recommend
from jobs.whatif.request_file import FileRequests, open_requests
from quota.algorithms.deduplication import Deduplication
from quota.algorithms.token_bucket import TokenBucket
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadInput, MutationQuotaError
from quota.planning.quota_file import read_quota_file
from quota.records.quota_log import Window
from quota.settings import load_settings
from quota.whatif.effects import Period
from quota.whatif.recommendation import SizingInput, Tenancy
from quota.whatif.rejected_algorithms import RateQuota
from tests.support.audited import ALICE, BOB, GROUND, PAGE, REQUESTS
from tests.support.deployment import with_sections
from tests.support.example_log import example_lines
from tests.support.factories import START
from tests.support.factories import request_after as after
from tests.support.factories import request_at as at
from tests.support.object_store import store_settings
from tests.support.programs import run


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
    advice = recommend(settings, GROUND, Tenancy.USER, Period(), write(*REQUESTS))
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
        recommend(settings, GROUND, Tenancy.USER, Period(START + 3000), write(*REQUESTS))


FILE = [
    after(0, 60),  # alice has 55: -5
    after(500, 4),  # rejected for 500 ms
    b"no request",
    after(1000, 7),
    after(1500, 9, user="[/b]\x1b[2J"),  # neither markup nor what a terminal obeys
    after(60_000, 1),
]


@pytest.fixture
def backtested(settings, write, tmp_path):
    """Replay lines with 5/s for alice."""
    (tmp_path / "five.yaml").write_text("quotas:\n- {entity: {user: alice}, controller_mutation_rate: 5}\n")

    def _backtested(*lines, since=None, until=None):
        return backtest(settings, [f"name=five,quotas={tmp_path}/five.yaml"], Period(since, until), write(*lines))

    return _backtested


def test_requests_of_a_file_are_compared_with_a_cluster_without_quotas(backtested, caplog):
    result = backtested(*FILE, since=START + 500, until=START + 60_000)
    assert result.replay is None
    assert [outcome.name for outcome in result.outcomes] == ["without quotas", "five"]
    without, five = (outcome.load for outcome in result.outcomes)
    assert (without.requests, without.admitted, without.rejected, without.peak) == (3, 4 + 7 + 9, 0, 7 + 9)
    assert (five.admitted, five.rejected, five.newly_rejected, five.throttled_seconds) == (7 + 9, 4, 4, 0.5)
    assert len(caplog.messages) == 1


def test_a_period_without_requests_is_reported(backtested):
    with pytest.raises(MutationQuotaError, match=r"no decisions: .*requests\.jsonl has none in that period"):
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
    requests, said = re.findall(r"```json\n(.*?)```.*?```text\n(.*?)```", PAGE, re.DOTALL)[0]
    (tmp_path / "requests.jsonl").write_text(requests)
    done = run("recommend", "--requests", "requests.jsonl", "--capacity", "100", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line.strip() for line in done.stdout.splitlines() if line.strip()] == [
        line.strip() for line in said.splitlines() if line.strip()
    ]


def test_the_presets_of_the_page_are_a_valid_quota_file_with_the_published_numbers(tmp_path):
    (presets,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "presets.yaml").write_text(presets)
    done = run("quotas", "validate", "presets.yaml", "--fail-on-warning", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    published = [int(number) for number in re.findall(r"^\| (\d+) in 5 minutes \|", PAGE, re.MULTILINE)]
    quotas = [record.quota for record in read_quota_file(presets.encode(), "presets.yaml")]
    assert [round(quota.rate * 300) for quota in quotas] == published
    assert [(quota.burst, quota.max_request_mutations) for quota in quotas] == [(most, most) for most in published]


def test_the_log_that_is_shipped_as_an_example_is_what_its_program_writes():
    assert gzip.decompress(EXAMPLE.read_bytes()) == b"".join(example_lines())


@pytest.fixture
def read(base_settings, write):
    """Decisions on the requests of a file of these lines."""
    return lambda *lines, **times: list(FileRequests(base_settings, write(*lines), Period(**times)))


def test_requests_of_a_file_become_decisions_that_admit_everything(read):
    first, second = read(at(1000, 60, 1, client_id="a", user="bob"), at(2000, 99, validate_only=True))
    assert (first.user, first.client_id, first.timestamp, first.source.offset) == ("bob", "a", 1000, 0)
    assert [(topic.partitions, topic.error_code) for topic in first.topics] == [(60, 0), (1, 0)]
    assert (first.quota, first.retry_at) == (None, 1000)
    assert (second.source.offset, second.validate_only) == (1, True)


def test_requests_can_be_limited_to_a_period(read):
    lines = [at(ms, 1) for ms in (999, 1000, 1999, 2000)]
    assert [request.timestamp for request in read(*lines, since=1000, until=2000)] == [1000, 1999]


def test_standard_input_can_be_read_again(base_settings, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(at(7, 1) + b"\n" + at(8, 1))))
    with open_requests(base_settings, "-", Period()) as requests:
        assert [request.timestamp for request in requests] == [request.timestamp for request in requests] == [7, 8]


@pytest.mark.parametrize(
    ("lines", "error", "message"),
    [
        ([], BadInput, "requests.jsonl: empty"),
        ([b"no", b"{}"], BadInput, "requests.jsonl: no line is a request; line 1: value: not JSON"),
        ([at(2000, 1)], MutationQuotaError, "requests.jsonl: it has 1 request, and none in that period"),
    ],
)
def test_a_file_without_requests_is_an_error(read, lines, error, message):
    with pytest.raises(error, match=message):
        read(*lines, until=2000)


RECORDED = CallbackTimeline()
YAML = b"quotas:\n- {entity: {user: alice}, controller_mutation_rate: 7}\n"
LOG = b'{"entity": {"user": "alice"}, "controller_mutation_rate": 7, "effective_at": 100}\n'


def candidates(*texts, settings=()):
    return parse_candidates(texts, RECORDED, load_settings(settings, environment={}, with_default_file=False))


def test_the_recorded_quotas_come_first_as_they_are_enforced():
    (only,) = candidates(settings=["repeats.window_seconds=2", "quota.window_num=5"])
    assert (only.name, only.quotas) == ("recorded quotas", RECORDED)
    assert only.algorithm == TokenBucket(Window(num=5), Deduplication(window_ms=2000))


def test_unset_parts_of_a_candidate_are_as_recorded():
    texts = "window-num=3", "name=old,algorithm=sampled-rate,window-size-seconds=2"
    parsed = candidates(*texts, settings=["repeats.window_seconds=2"])[1:]  # which a rate does not support
    assert [candidate.name for candidate in parsed] == ["window-num=3", "old"]
    assert [candidate.quotas for candidate in parsed] == [RECORDED, RECORDED]
    assert parsed[0].algorithm == TokenBucket(Window(num=3), Deduplication(window_ms=2000))
    assert isinstance(parsed[1].algorithm, RateQuota)
    assert parsed[1].algorithm.window == Window(size_seconds=2)


def test_a_file_of_requests_has_no_recorded_quotas(tmp_path):
    (tmp_path / "q.yaml").write_bytes(YAML)
    settings = load_settings(environment={}, with_default_file=False)
    (only,) = parse_candidates([f"name=seven,quotas={tmp_path / 'q.yaml'}"], None, settings)
    assert only.name == "seven"
    with pytest.raises(BadInput, match="--candidate window-num=3: a file of requests needs quotas; add"):
        parse_candidates(["window-num=3"], None, settings)


@pytest.mark.parametrize(
    ("name", "text", "rates"),
    [
        ("q.yaml", YAML, {0: 7, 100: 7}),
        ("q.jsonl", LOG, {0: None, 100: 7}),
        ("described.json", b'{"quotas": [' + LOG + b"]}", {0: None, 100: 7}),
        ("of-windows.jsonl", codecs.BOM_UTF8 + LOG, {0: None, 100: 7}),
    ],
)
def test_quotas_are_read_as_apply_and_simulate_read_them(tmp_path, name, text, rates):
    (tmp_path / name).write_bytes(text)
    quotas = candidates(f"quotas={tmp_path / name}")[1].quotas
    limits = {at: quotas.resolve("alice", "app", at).limit for at in rates}
    assert {at: limit and limit.quota.rate for at, limit in limits.items()} == rates


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tight.yaml", "--candidate tight.yaml: expected KEY=VALUE,... with each of name, quotas, window-num, "),
        ("window-num=1,window-num=2", "at most once"),
        ("window-num=0", "--candidate window-num=0: window-num: expected a whole number above 0"),
        ("window-size-seconds=1.5", "window-size-seconds: expected a whole number above 0"),
        ("algorithm=bucket", "algorithm: expected one of token-bucket, sampled-rate, spread-rate"),
        ("quotas=nowhere.yaml", "nowhere.yaml: No such file or directory"),
        ("name=recorded quotas", "two candidates are called 'recorded quotas'"),
    ],
)
def test_an_unusable_candidate_is_reported(text, message):
    with pytest.raises(BadInput) as caught:
        candidates(text)
    assert message in str(caught.value)


def run_backtest(settings):
    backtest(settings, [], Period())


def run_recommend(settings):
    sizing = SizingInput(100.0, 0.2, None, settings.quota.window)
    recommend(settings, sizing, Tenancy.USER, Period())


@pytest.mark.parametrize("command", [run_backtest, run_recommend])
def test_a_store_or_tables_that_are_not_there_are_named_and_no_folder_is_made(command, tmp_path):
    with pytest.raises(MutationQuotaError, match=r"^s3a://bucket/root/.* Connection refused"):
        command(store_settings(1))
    settings = load_settings([f"storage.root={tmp_path / 'root'}"], environment={}, with_default_file=False)
    with pytest.raises(
        MutationQuotaError, match=r"^there is no table .*/(decisions|quota_changes): run mutation-quota audit first"
    ):
        command(settings)
    assert list(tmp_path.iterdir()) == []
