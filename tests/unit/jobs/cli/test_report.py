"""`mutation-quota report`: from tables to a file, and its errors."""

import json
import re

import pytest
from typer.testing import CliRunner

from jobs.cli.program import app
from quota import __version__
from quota.errors import MutationQuotaError
from tests.support.factories import request_json
from tests.support.programs import run
from tests.support.tables import DAY, HOUR, data_of, decision, write_tables

NASTY = "</script><script>alert(1)</script><!--"


@pytest.fixture
def report(tmp_path):
    """Run the command; the page that it has written."""

    def _report(*options):
        out = tmp_path / "page.html"
        given = ["--force", "--set", f"storage.root={tmp_path}", "--output-file", str(out)]
        done = CliRunner().invoke(app, ["report", *given, *options])
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return out.read_text(encoding="utf-8")

    return _report


def test_the_page_is_one_file_with_its_data_and_the_licence_of_the_library(report, settings):
    write_tables(settings, decisions=[decision(DAY, admitted=[3]), decision(DAY + HOUR, admitted=[4])])
    page = report()
    assert sum(interval["admitted"] for interval in data_of(page)["intervals"]) == 7
    assert "var uPlot=function" in page
    assert "Copyright (c) 2022 Leon Sorokin" in page
    assert "uPlot 1.6.31" in page
    assert "Try a quota" not in page


def heading(page):
    """Return the title of a page, and what it says that it is of."""
    title, origin = re.findall(r"<title>(.*?)</title>|<p class=\"quiet\">(Of [^<]*)</p>", page)
    return title[0], re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "TIME", origin[1])


def test_a_page_says_what_it_is_of(report, settings, tmp_path):
    """The same page of a file, with and without other quotas, or of tables, must not be taken for another."""
    write_tables(settings, decisions=[decision(DAY, admitted=[3])])
    made = f"Made TIME UTC by mutation-quota {__version__}."
    assert heading(report("--set", "kafka.bootstrap_servers=kafka-1:9092")) == (
        "Topic mutations",
        f"Of the audit&#x27;s tables in {tmp_path}, for Kafka at kafka-1:9092. {made}",
    )
    file, quotas = tmp_path / "a&b.jsonl", tmp_path / "quotas.yaml"
    file.write_bytes(request_json(60, timestamp=DAY) + b"\n")
    quotas.write_text("quotas: [{entity: {user: null}, controller_mutation_rate: 1}]\n")
    escaped = str(file).replace("&", "&amp;")
    assert heading(report("--requests", str(file))) == (
        "Topic mutations",
        f"Of the requests in {escaped}, and the cluster&#x27;s answers to them. {made}",
    )
    assert heading(report("--requests", str(file), "--quotas", str(quotas), "--user", "alice")) == (
        "What if: topic mutations of user &#x27;alice&#x27;",
        f"Of the requests in {escaped}, as the quotas in {quotas} would have decided them. {made}",
    )


def test_programs_get_the_count_of_the_requests_that_were_selected_and_their_period_as_epoch_ms(settings, tmp_path):
    rows = [decision(DAY + hour * HOUR, user=user, admitted=[1]) for hour in range(4) for user in ("alice", "bob")]
    write_tables(settings, decisions=rows)
    selected = ["--from", "2026-11-21T01:00", "--to", "2026-11-21T03:00", "--user", "bob"]
    options = ["--output-file", "page.html", "--output", "json", "--set", f"storage.root={tmp_path}"]
    written = json.loads(run("report", *selected, *options, cwd=tmp_path).stdout)
    assert written == {"file": "page.html", "from": DAY + HOUR, "to": DAY + 2 * HOUR + 15_000, "requests": 2}


def test_a_table_of_an_older_version_is_named_with_what_upgrades_it(report, settings):
    write_tables(settings, {"decisions": "3"}, decisions=[decision(DAY)])
    error = r"has version 3, and this program reads version 10; upgrade it with mutation-quota audit --once"
    with pytest.raises(MutationQuotaError, match=error):
        report()
