"""The dashboard as a process on a real broker: requests are decided, shown, explained; a quota is tried out and set."""

import re
import signal
import subprocess

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from quota.kafka.quotas.log import read_log
from quota.kafka.quotas.writer import write_record
from quota.kafka.requests_and_answers import RequestWriter
from quota.kafka.topics.preparation import prepare_topics
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Quota, QuotaRecord
from quota.records.request import MutationRequest, Operation, TopicMutation
from tests.browser.window import console_messages, rows, text
from tests.support.deployment import as_options
from tests.support.gateway import StandIn
from tests.support.programs import command_line
from tests.support.waiting import until

ALICE = QuotaEntity("alice")


@pytest.fixture
def dashboard(deployment, tmp_path):
    """Return a function that starts the dashboard of the deployment, and returns the process and its URL."""
    started = []

    def _start(*options):
        command = command_line("dashboard", *options, *as_options(deployment, "dashboard.port=0"))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path)
        started.append(process)
        line = process.stdout.readline()
        return process, re.fullmatch(r"dashboard at (http://127\.0\.0\.1:\d+/)\n", line)[1]

    yield _start
    for process in started:
        process.kill()
        process.communicate()


def send(settings, *partitions, user="alice"):
    """Send a request for each of these numbers of partitions."""
    writer = RequestWriter(settings)
    for number, count in enumerate(partitions):
        topics = [TopicMutation(f"t{number}", count)]
        writer.send(MutationRequest(f"r{number}", Operation.CREATE_TOPICS, 7, topics, user, "app"))
    writer.flush(10)


def test_from_a_request_to_a_quota_that_was_tried_out(browser, deployment, dashboard):
    """At Q = 1, so B = 11: 60 mutations are admitted, and the next 60 rejected. With a burst of 200 they are not."""
    prepare_topics(deployment)
    write_record(deployment, QuotaRecord(ALICE, 1.0, altered_by="ann", comment="as agreed"))
    _, url = dashboard()
    with StandIn(deployment) as job:
        job.read_quotas()
        browser.get(url)
        until(lambda: text(browser, "#contact") == "Live")
        until(lambda: len(rows(browser, "changes-table")) == 1)
        assert text(browser, "#empty").startswith("No request has been decided")

        send(deployment, 60, 60)
        until(lambda: len(rows(browser, "decisions-table")) == 2)
        (tenant,) = until(lambda: rows(browser, "tenants-table"))
        assert "user 'alice'" in tenant

        browser.find_element(By.CSS_SELECTOR, "#decisions-table button").click()
        until(lambda: "recomputed" in text(browser, "#dialog-body"))
        explained = text(browser, "#dialog-body")
        assert "Q = 1 mutation/s, set for user-principal 'alice'" in explained
        assert "'t1' of 60: rejected" in explained
        assert explained.endswith("recomputed\nthe same\nlast hour\n60 mutations, of 'app' 100%")
        browser.switch_to.active_element.send_keys(Keys.ESCAPE)

        browser.find_element(By.CSS_SELECTOR, "#tenants-table td:last-child button").click()
        browser.find_element(By.ID, "burst").send_keys("200", Keys.ENTER)
        until(lambda: browser.find_elements(By.ID, "command"))
        assert "60 rejected mutations would have been admitted" in text(browser, "#trial-result")
        assert text(browser, "#command") == (
            "mutation-quota quotas alter --user=alice "
            "--add-config controller_mutation_rate=1.0,controller_mutation_burst=200.0"
        )
        assert read_log(deployment).timeline.latest(ALICE, 2**62).quota == Quota(1.0)  # nothing is set
    assert console_messages(browser) == []


def test_it_waits_for_topics_that_do_not_exist_yet(browser, deployment, dashboard):
    _, url = dashboard()
    browser.get(url)
    until(lambda: text(browser, "#contact").startswith("Cannot describe topics"))
    prepare_topics(deployment)
    until(lambda: text(browser, "#contact") == "Live")


def test_a_signal_ends_it_while_pages_are_open(browser, deployment, dashboard):
    prepare_topics(deployment)
    process, url = dashboard()
    browser.get(url)
    until(lambda: text(browser, "#contact") == "Live")
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert (process.returncode, output) == (0, "")
