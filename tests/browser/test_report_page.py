"""The page of a report, in a real browser: what is different from the live page, whose tests have the rest."""

import re
from itertools import pairwise

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from jobs.dashboard.report import ReportScope, report_on_file, report_on_tables
from quota.settings import load_settings
from tests.browser.window import console_messages, painted, requested_urls, rows, text, tiles
from tests.support.factories import request_at
from tests.support.tables import DAY, HOUR, change, decision, letter, moment, write_tables
from tests.support.waiting import until

NASTY = "</script><script>document.title = 'mine'</script><img src=x onerror=\"document.title = 'mine'\">"

ROWS = {
    "decisions": [
        decision(DAY, admitted=[30], latency_ms=200),
        decision(DAY + HOUR, admitted=[10], rejected=[40], throttled_ms=90_000, tokens=-11.0),
        decision(DAY + HOUR + 1, user="bob", client="app", admitted=[7], tokens=48.0),
        decision(DAY + 2 * HOUR, user=NASTY, client="{{policy}}", rejected=[2], tokens=-1.0, throttled_ms=1000),
        decision(DAY + 3 * HOUR, user="עלי\u202e", admitted=[1]),
    ],
    "letters": [letter(DAY + HOUR, "<b>value</b>: not JSON")],
    "changes": [change(DAY + HOUR // 2, rate=5.0, comment="<i>why</i>"), change(DAY + 2 * HOUR, user="bob", rate=9.0)],
}


@pytest.fixture
def page(browser, tmp_path):
    """Return a function that opens the page of a report on rows."""

    def _page(rows=ROWS, scope=ReportScope()):  # noqa: B008 immutable
        settings = load_settings([f"storage.root={tmp_path / 'root'}"], environment={}, with_default_file=False)
        write_tables(settings, **rows)
        file = tmp_path / "report.html"
        file.write_text(report_on_tables(settings, scope).page, encoding="utf-8")
        browser.get(file.as_uri())
        return browser

    return _page


def test_it_draws_its_charts_without_errors_and_requests_nothing_but_itself(page, tmp_path):
    driver = page()
    assert painted(driver) == 4
    assert console_messages(driver) == []
    assert "client-id '{{policy}}'" in text(driver, "#tenants-table")  # a name is no place of the template
    assert requested_urls(driver) == [(tmp_path / "report.html").as_uri()]
    assert tiles(driver) == {
        "Decisions": "5",
        "Mutations admitted": "48",
        "Mutations rejected": "42",
        "Throttled tenants": "1",
        "Decided in": "100 ms",
        "Invalid records": "1",
    }
    assert driver.find_elements(By.CSS_SELECTOR, "#filter, #pause, #trial, #contact") == []


def test_its_own_policy_blocks_foreign_resources_and_scripts(page):
    driver = page()
    driver.execute_script("document.body.append(Object.assign(new Image(), {src: 'https://localhost/x.png'}))")
    driver.execute_script(
        "const s = document.createElement('script'); s.text = 'document.title = 1'; document.body.append(s)"
    )
    assert driver.title == "Topic mutations"
    assert len([message for message in console_messages(driver) if "Content Security Policy" in message]) == 2


def test_buckets_are_as_of_the_end_of_the_period(page):
    """Alice has -11 two hours before it, and so 55 again; the last sender is in debt for 200 ms from its request on."""
    driver = page({"decisions": [*ROWS["decisions"], decision(DAY + 3 * HOUR + 1, user="mall", tokens=-1.0)]})
    shown = {row.split("\n")[0].split("\t")[0]: row for row in rows(driver, "tenants-table")}
    assert "no quota" in shown["user 'alice'"]  # nor is there one in the log
    driver = page(ROWS | {"changes": [change(DAY - HOUR)]})
    shown = {row.split("\n")[0].split("\t")[0]: row for row in rows(driver, "tenants-table")}
    assert "55 of 55" in shown["user 'alice'"]


def test_a_tenant_has_the_shares_of_those_who_used_its_bucket(page):
    sizes = {"etl": 30, "app": 10}
    made = [
        decision(DAY + number, client=name, client_tag="", admitted=[size])
        for number, (name, size) in enumerate(sizes.items())
    ]
    (tenant,) = rows(page({"decisions": made}), "tenants-table")
    assert "40 mutations, of 'etl' 75%, 'app' 25%" in tenant


def test_what_is_scheduled_for_after_the_period_is_told(page):
    driver = page(ROWS | {"changes": [change(DAY, user="bob", rate=9.0, effective_at=moment(DAY + 9 * HOUR))]})
    rate = "controller_mutation_rate=9.0 from 2026-11-21T09:00:00.000Z on"
    assert text(driver, "#scheduled") == f"Scheduled: user-principal 'bob' becomes {rate}."


def test_a_decision_and_a_tenant_are_opened_without_a_server(page):
    driver = page()
    driver.find_element(By.XPATH, "//*[@id='tenants-table']//button[contains(., \"'alice'\")]").click()
    until(lambda: len(rows(driver, "tenant-decisions")) == 2)
    driver.find_element(By.CSS_SELECTOR, "#tenant-decisions button").click()
    until(lambda: f"mutation-quota explain requests-0-{DAY + HOUR}" in text(driver, "#dialog-body"))
    driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    until(lambda: not driver.execute_script("return document.getElementById('dialog').open"))


def test_a_period_and_the_rejected_ones_are_selected_in_the_page(page):
    driver = page()
    assert len(rows(driver, "decisions-table")) == 5
    driver.find_element(By.ID, "rejected-only").click()
    until(lambda: len(rows(driver, "decisions-table")) == 2)
    driver.execute_script("location.hash = arguments[0]", f"#rejected=1&from={DAY + HOUR}&to={DAY + HOUR + 60_000}")
    until(lambda: len(rows(driver, "decisions-table")) == 1)
    period = "Charts and decisions are of 2026-11-21 01:00:00 to 2026-11-21 01:01:00 UTC."
    until(lambda: text(driver, "#period").startswith(period))
    assert "0.283 mutations/s admitted and 0.667 rejected" in text(driver, "#load-text")  # of a minute
    driver.execute_script("location.hash = arguments[0]", f"#from={DAY + 60_000}&to={DAY + HOUR}")
    until(lambda: "mutation-quota decisions list has all" in text(driver, "#decisions-table"))
    driver.find_element(By.ID, "period-end").click()
    until(lambda: len(rows(driver, "decisions-table")) == 5)


def test_no_command_is_shown_for_a_decision_of_a_file(browser, tmp_path):
    requests, file = tmp_path / "requests.jsonl", tmp_path / "report.html"
    requests.write_bytes(request_at(DAY, 5, 80))
    settings = load_settings([], environment={}, with_default_file=False)
    file.write_text(report_on_file(settings, str(requests), ReportScope(), None).page, encoding="utf-8")
    browser.get(file.as_uri())
    browser.find_element(By.CSS_SELECTOR, "#decisions-table button").click()
    until(lambda: text(browser, "#dialog-body").startswith("It is of a file"))


def labels_above_lines(driver):
    """Return the labels that the first chart draws above its dashed lines: text, left and right edge, and height.

    Labels are centred, and those of the time axis are below the lines. If the chart is drawn twice, because its new
    size was noticed meanwhile, they are those of the second time.
    """
    script = """
        const done = arguments[0], texts = [], prototype = CanvasRenderingContext2D.prototype;
        const {fillText, clearRect} = prototype;
        prototype.fillText = function (text, x, y) {
          const half = this.measureText(text).width / 2;
          const isLabel = this.textAlign === "center" && this.canvas.closest("#load");
          if (isLabel) texts.push([String(text), x - half, x + half, y]);
          return fillText.call(this, text, x, y);
        };
        prototype.clearRect = function (...area) {
          if (this.canvas.closest("#load")) texts.length = 0;
          return clearRect.apply(this, area);
        };
        dispatchEvent(new HashChangeEvent("hashchange"));
        requestAnimationFrame(() => requestAnimationFrame(() => {
          Object.assign(prototype, {fillText, clearRect});
          done(texts);
        }));
    """
    return [label for label in driver.execute_async_script(script) if label[3] < 30]


CLOSE = [change(DAY + HOUR + 5000 * number, rate=float(number + 1)) for number in range(10)]
"""Ten changes within a minute."""


@pytest.mark.parametrize(
    ("changes", "first", "last"),
    [
        ([*CLOSE, change(DAY + 2 * HOUR, rate=50.0)], "1\u201310", "11"),
        # one every two minutes: closer than their numbers are wide
        ([change(DAY + 120_000 * number, rate=float(number + 1)) for number in range(60)], "1", "60"),
    ],
)
def test_labels_of_changes_that_lie_close_together_are_one_and_never_touch(page, changes, first, last):
    labels = labels_above_lines(page({"decisions": ROWS["decisions"], "changes": changes}))
    assert labels[0][0].startswith(first)
    assert labels[-1][0].endswith(last)
    assert all(left[2] < right[1] for left, right in pairwise(labels))


def test_one_huge_request_does_not_flatten_the_others(page):
    """100,000 beside 20 every minute: the axis ends at twice the 20, and the text names the peak."""
    usual = [decision(DAY + 60_000 * minute, admitted=[20]) for minute in range(60)]
    driver = page({"decisions": [*usual, decision(DAY + 1_830_000, admitted=[100_000])]})
    assert re.search(r"Peak at .* The axis ends at [\d.]+, below this peak\.$", text(driver, "#load-text"))


def test_a_truncated_table_says_that_it_can_be_scrolled_until_its_end_is_reached(page):
    tenants = [decision(DAY + number, user=f"user-{number:02}", admitted=[number + 1]) for number in range(40)]
    driver = page({"decisions": tenants})
    frame = driver.find_element(By.CSS_SELECTOR, "#tenants-table > div")
    until(lambda: frame.get_attribute("class") == "more")
    assert frame.find_element(By.CSS_SELECTOR, ".rows").text == "40 rows; scroll to see all"
    driver.execute_script("const s = document.querySelector('#tenants-table .scroll'); s.scrollTop = s.scrollHeight")
    until(lambda: frame.get_attribute("class") == "")


def test_a_chart_has_a_table_that_says_the_same(page):
    driver = page()
    summary = driver.find_element(By.CSS_SELECTOR, "#load summary")
    driver.execute_script("arguments[0].focus()", summary)
    summary.send_keys(Keys.ENTER)
    shown = until(lambda: driver.find_elements(By.CSS_SELECTOR, "#load .values tbody tr"))
    assert len(shown) == 181
    assert [cell.text for cell in shown[120].find_elements(By.CSS_SELECTOR, "th, td")] == [
        "2026-11-21 01:00:00",
        "0.667",
        "0.283",
    ]


def test_a_report_on_one_user_has_their_name(page):
    driver = page(scope=ReportScope(user="bob"))
    assert text(driver, "h1") == "Topic mutations of user 'bob'"
    assert tiles(driver)["Invalid records"] == "\u2013"
