"""The README, and pages with examples, are correct: the examples run, and the commands exist."""

import re
import runpy
import subprocess
import sys
import threading
from contextlib import closing
from http.client import HTTPConnection

import msgspec
import pytest

from jobs.enforce.query import start_enforce
from jobs.sandbox.broker import with_plaintext_cluster
from jobs.storage.files import DeploymentSession
from quota.callbacks.instance import check_callbacks
from quota.callbacks.timeline import CallbackTimeline
from quota.kafka.quotas.writer import write_record
from quota.kafka.requests_and_answers import AnswerReader, RequestWriter
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import QuotaRecord
from quota.records.request import MutationRequest
from quota.settings import load_settings
from tests.support.checkout import CHECKOUT
from tests.support.deployment import with_sections
from tests.support.factories import request_json
from tests.support.waiting import until

README = (CHECKOUT / "README.md").read_text()
HOW_TO = CHECKOUT / "docs" / "how-to"
ALGORITHMS = CHECKOUT / "docs" / "explanation" / "algorithms.md"


def run_script(script, folder):
    """Run commands with the program of this checkout, and return what they print."""
    script = f'mutation-quota() {{ {sys.executable} -m jobs "$@"; }}\n{script}'
    done = subprocess.run(["bash", "-ec", script], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_example_of_recommended_quotas_runs_as_printed(tmp_path):
    """From the shipped log to quotas; the page leaves out lines before and after the table."""
    page = (HOW_TO / "recommend.md").read_text()
    ((script, printed),) = re.findall(r"```sh\n([^`]*--example[^`]*)```\n\n```text\n…\n(.*?)…\n```", page, re.DOTALL)
    assert printed in run_script(script, tmp_path)


def test_the_example_from_files_runs_as_printed(tmp_path):
    """In the worked timeline a request is admitted, rejected for 12,000 ms, and then admitted."""
    ((script, printed),) = re.findall(
        r"```sh\n([^`]*simulate[^`]*)```\n\n```\n(.*?)```", ALGORITHMS.read_text(), re.DOTALL
    )
    assert run_script(script, tmp_path) == printed
    assert [line.split()[5:] for line in printed.splitlines()[1:]] == [
        ["ADMITTED", "-60", "0", "s"],
        ["REJECTED", "-60", "12", "s"],
        ["ADMITTED", "-80", "0", "s"],
    ]


def test_the_example_of_a_callback_works(tmp_path):
    (block,) = re.findall(r"```toml\n(.*?)```", (HOW_TO / "callbacks.md").read_text(), re.DOTALL)
    file = tmp_path / "settings.toml"
    file.write_text(block)
    callbacks = load_settings(file=file, environment={}).quota.callbacks
    check_callbacks(callbacks)
    resolved = CallbackTimeline(callbacks).resolve("bob", "app", 0)
    assert (resolved.tags.more, resolved.limit.quota.rate) == ((("group", "payments"),), 10.0)


@pytest.fixture(scope="module")
def job(spark, base_settings, broker, tmp_path_factory):
    """The settings of a running job on the topics that it has by default, which has decided already."""
    settings = with_plaintext_cluster(base_settings, broker.address)
    settings = with_sections(settings, storage={"root": str(tmp_path_factory.mktemp("readme"))})
    prepare_topics(settings)
    with closing(AnswerReader(settings)) as reader:
        query = start_enforce(DeploymentSession.on(spark, settings))
        writer = RequestWriter(settings)
        writer.send(msgspec.json.decode(request_json(1), type=MutationRequest))
        writer.flush(30)
        until(lambda: list(reader.read()))  # a first batch may take longer than a client waits
    yield settings
    query.stop()


def test_the_example_of_a_client_runs_as_printed(job, capsys):
    (block, *_) = re.findall(r"```python\n(.*?)```", (HOW_TO / "clients.md").read_text(), re.DOTALL)
    exec(block.replace("127.0.0.1:9092", job.kafka.bootstrap_servers), {})  # noqa: S102 it is ours
    assert capsys.readouterr().out == "orders is there\npayments is there\n"


def test_the_example_of_a_service_answers_what_the_quota_rejects_with_429(job):
    """60 of a burst of 10 are admitted; of a rate of 1 a second, 50 and the next second are to be waited for."""
    quota = QuotaRecord(QuotaEntity(client_id="topic-service"), 1.0, controller_mutation_burst=10.0)
    write_record(job, quota)
    service = runpy.run_path(str(HOW_TO / "examples" / "topic_service.py"))["TopicService"]
    with service(job.kafka.bootstrap_servers, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def put(path):
            connection = HTTPConnection(*server.server_address, timeout=60)
            connection.request("PUT", path)
            response = connection.getresponse()
            return response.status, response.read().decode(), int(response.getheader("Retry-After", "0"))

        assert put("/refunds?partitions=many")[0] == 400
        assert put("/refunds?partitions=60") == (201, "refunds is there\n", 0)
        status, text, seconds = put("/returns?partitions=1")
        server.shutdown()
    assert (status, "; try again in " in text) == (429, True)
    assert 40 <= seconds <= 51


def test_the_settings_of_the_readme_are_those_of_a_deployment(tmp_path):
    (block,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    file = tmp_path / "quotas.toml"
    file.write_text(block)
    settings = load_settings(file=file, environment={})
    assert (settings.kafka.bootstrap_servers, settings.enforce.with_audit) == ("kafka-1:9092", True)


def test_every_make_target_that_is_named_exists():
    targets = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"make ([a-z-]+)", README))
    assert "test" in named
    assert named <= targets


def test_every_page_of_decisions_is_listed():
    folder = CHECKOUT / "docs" / "decisions"
    listed = set(re.findall(r"\]\(([^)]+)\)", (folder / "README.md").read_text()))
    assert listed == {str(page.relative_to(folder)) for page in folder.rglob("[0-9]*.md")}
