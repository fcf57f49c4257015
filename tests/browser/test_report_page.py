"""The page of a report, in a real browser."""

import re
from itertools import pairwise

import pyarrow.dataset as ds
import pytest
from msgspec.structs import replace
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from jobs.report.aggregation import ReportScope, compute_figures
from jobs.report.figures import Candidates, CandidateTotals
from jobs.report.page import Origin, render_page
from jobs.report.uplot import load_library
from quota.whatif.effects import Totals
from tests.browser.window import console_messages, painted, requested_urls, set_window, text, tiles
from tests.support.tables import DAY, HOUR, arrow_tables, change, decision, letter
from tests.support.waiting import until

NASTY = "</script><script>document.title = 'mine'</script><img src=x onerror=\"document.title = 'mine'\">"

ROWS = {
    "decisions": [
        decision(DAY, admitted=[30], latency_ms=200),
        decision(DAY + HOUR, admitted=[10], rejected=[40], throttled_ms=90_000, tokens=-11.0),
        decision(DAY + HOUR, user="bob", client="app", admitted=[7], tokens=48.0),
        decision(DAY + 2 * HOUR, user=NASTY, rejected=[2], tokens=-1.0, throttled_ms=1000),
        decision(DAY + 3 * HOUR, user="עלי\u202e", admitted=[1]),
    ],
    "letters": [letter(DAY + HOUR, "topics: expected `array`"), letter(DAY + HOUR, "<b>value</b>: not JSON")],
    "changes": [change(DAY + HOUR // 2, rate=5.0, comment="<i>why</i>"), change(DAY + 2 * HOUR, user="bob", rate=9.0)],
}


@pytest.fixture
def page(browser, tmp_path):
    """Open a page of rows."""

    def _page(rows=ROWS, wanted=ReportScope(), candidates=None, origin=Origin("Of rows.")):  # noqa: B008 immutable
        tables = {name: ds.dataset(table) for name, table in arrow_tables(**rows).items()}
        file = tmp_path / "report.html"
        file.write_text(
            render_page(replace(compute_figures(tables, wanted), candidates=candidates), load_library(), origin),
            encoding="utf-8",
        )
        browser.get(file.as_uri())
        return browser

    return _page


def press(driver, *keys):
    for key in keys:
        driver.switch_to.active_element.send_keys(key)


def focused(driver):
    return driver.execute_script("return document.activeElement.id || document.activeElement.className")


def test_it_draws_its_charts_without_errors_and_requests_nothing_but_itself(page, tmp_path):
    driver = page()
    assert painted(driver) == 4
    assert console_messages(driver) == []
    assert requested_urls(driver) == [(tmp_path / "report.html").as_uri()]
    value = driver.find_element(By.CSS_SELECTOR, "#load .u-legend .u-series:first-child")
    assert value.value_of_css_property("visibility") == "hidden"  # a legend has values only where the pointer is
    assert tiles(driver) == {
        "Requests": "5",
        "Mutations admitted": "48",
        "Mutations rejected": "42",
        "Busiest second": "30",
        "Throttled": "1 min 31 s",
        "Worst p99": "200 ms",
    }


def test_its_own_policy_blocks_foreign_resources_and_scripts(page):
    driver = page()
    driver.execute_script("document.body.append(Object.assign(new Image(), {src: 'https://localhost/x.png'}))")
    driver.execute_script(
        "const s = document.createElement('script'); s.text = 'document.title = 1'; document.body.append(s)"
    )
    assert driver.title == "Topic mutations"
    assert len([message for message in console_messages(driver) if "Content Security Policy" in message]) == 2


def test_names_and_errors_are_text(page):
    driver = page()
    assert driver.title == "Topic mutations"
    names = [cell.text for cell in driver.find_elements(By.CSS_SELECTOR, "#tenants-table tbody th")]
    assert any(NASTY.replace("'", "\\'") in name or NASTY in name for name in names)
    assert "user 'עלי\\u202e' (spelled '\\u05e2\\u05dc\\u05d9\\u202e')" in names
    assert "<b>value</b>" in text(driver, "#letters-table")
    assert "<i>why</i>" in text(driver, "#changes-table")


def test_a_tenant_is_chosen_by_keyboard(page):
    driver = page()
    press(driver, Keys.TAB, Keys.TAB)
    assert focused(driver) == "tenant"
    press(driver, Keys.DOWN, Keys.DOWN)
    assert tiles(driver)["Mutations admitted"] == "7"
    assert text(driver, "#tokens .unit") == "mutations"
    status = driver.find_element(By.ID, "status").get_attribute("textContent")
    assert status == "user 'bob', client-id 'app': 1 request, 7 mutations admitted, 0 rejected."
    press(driver, Keys.HOME)
    assert tiles(driver)["Mutations admitted"] == "48"


def test_the_time_is_chosen_by_keyboard_and_announced_to_screen_readers(page):
    driver = page()
    press(driver, *[Keys.TAB] * 3)
    assert focused(driver) == "from"
    press(driver, Keys.RIGHT)
    assert driver.find_element(By.ID, "from").get_attribute("aria-valuetext") == "2026-11-21 00:01 UTC"
    assert tiles(driver)["Mutations admitted"] == "18"
    press(driver, Keys.TAB, Keys.HOME)
    assert focused(driver) == "to"
    assert tiles(driver)["Mutations admitted"] == "30"  # an interval is left: the first
    press(driver, Keys.TAB)
    assert focused(driver) == "all"
    press(driver, Keys.ENTER)
    assert tiles(driver)["Mutations admitted"] == "48"


def test_a_chart_has_a_sentence_and_a_table_that_say_the_same(page):
    driver = page()
    assert text(driver, "#throttled .text") == (
        "Throttled for 1 min 31 s in total, summed over tenants; "
        "most at 2026-11-21 01:00 UTC: 1 at once, averaged over 1 min."
    )
    label = driver.find_element(By.CSS_SELECTOR, "#load [role=img]").get_attribute("aria-labelledby")
    assert driver.find_element(By.ID, label.split()[0]).text == "Mutations requested"
    summary = driver.find_element(By.CSS_SELECTOR, "#load summary")
    driver.execute_script("arguments[0].focus()", summary)
    press(driver, Keys.ENTER)
    rows = until(lambda: driver.find_elements(By.CSS_SELECTOR, "#load .values tbody tr"))
    assert len(rows) == 181
    assert [cell.text for cell in rows[60].find_elements(By.CSS_SELECTOR, "th, td")] == [
        "2026-11-21 01:00",
        "0.667",
        "0.283",
    ]
    press(driver, Keys.TAB)
    assert focused(driver) == "scroll"  # so that it can be scrolled


def test_no_line_breaks_between_a_number_and_its_unit(page):
    shown = page().execute_script(
        "return [...document.querySelectorAll('#tiles, .charts .text, .u-legend')]"
        ".map((element) => element.textContent).join()"
    )
    assert "200\u00a0ms" in shown
    assert "99\u00a0%" in shown
    assert re.findall(r"\d (?:ms|s|min|h|d|%|mutations?/s)(?!\w)", shown) == []


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
        document.getElementById("all").click();
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
    driver = page({"decisions": [*usual, decision(DAY + 1_800_000, admitted=[100_000])]})
    assert re.search(r"Peak at .* The axis ends at [\d.]+, below this peak\.$", text(driver, "#load-text"))
    assert "The axis ends" not in text(page({"decisions": usual}), "#load-text")


def test_one_deep_debt_does_not_flatten_the_tokens_of_others(page):
    """-4400 is -8000 % of the burst of 55; the tenant's own chart shows all of it."""
    rows = [decision(DAY, admitted=[20], tokens=30.0), decision(DAY, user="bob", admitted=[4455], tokens=-4400.0)]
    driver = page({"decisions": rows})
    assert text(driver, "#tokens-text").endswith("The axis ends at -200, above this value.")
    driver.find_element(By.XPATH, "//button[contains(., \"'bob'\")]").click()
    assert "The axis ends" not in text(driver, "#tokens-text")


def test_a_what_if_has_no_time_to_decide(page):
    driver = page(origin=Origin("Of rows.", what_if=True))
    assert painted(driver) == 3
    assert "Worst p99" not in tiles(driver)
    assert "Worst p99" in tiles(page())


def test_a_truncated_table_says_that_it_can_be_scrolled_until_its_end_is_reached(page):
    tenants = [decision(DAY + number, user=f"user-{number:02}", admitted=[number + 1]) for number in range(40)]
    driver = page({"decisions": tenants})
    frame = driver.find_element(By.CSS_SELECTOR, "#tenants-table > div")
    rows = len(driver.find_elements(By.CSS_SELECTOR, "#tenants-table tbody tr"))
    until(lambda: frame.get_attribute("class") == "more")
    assert frame.find_element(By.CSS_SELECTOR, ".rows").text == f"{rows} rows; scroll to see all"
    driver.execute_script("const s = document.querySelector('#tenants-table .scroll'); s.scrollTop = s.scrollHeight")
    until(lambda: frame.get_attribute("class") == "")
    assert text(page(), "#changes-table .rows") == "2 rows"


def test_a_chosen_tenant_has_its_own_changes_and_throttle_times(page):
    """The longest throttle is a part of an interval."""
    driver = page()
    driver.find_element(By.XPATH, "//button[contains(., \"'alice'\")]").click()
    assert text(driver, "#throttled .text") == (
        "Throttled for 1 min 30 s in total; most at 2026-11-21 01:00 UTC: 1 min of 1 min."
    )
    assert len(driver.find_elements(By.CSS_SELECTOR, "#changes-table tbody tr")) == 1
    driver.find_element(By.XPATH, "//button[contains(., \"'bob'\")]").click()
    (row,) = driver.find_elements(By.CSS_SELECTOR, "#changes-table tbody tr")
    assert "rate 9" in row.text


def test_on_a_phone_in_a_dark_scheme_the_page_is_dark_and_nothing_is_wider_than_the_screen(page):
    set_window(page(), width=360, height=740, scheme="dark")
    driver = page()
    color = driver.find_element(By.TAG_NAME, "body").value_of_css_property("background-color")
    assert max(int(part) for part in color.strip("rgba()").split(",")[:3]) < 40
    assert driver.execute_script("return document.documentElement.scrollWidth") == 360
    assert painted(driver) == 4
    for frame in driver.find_elements(By.CSS_SELECTOR, ".scroll"):
        assert frame.get_property("scrollWidth") <= frame.get_property("clientWidth") + 1
    (bob,) = [row for row in driver.find_elements(By.CSS_SELECTOR, "#tenants-table tr") if "'bob'" in row.text]
    shown = driver.execute_script(
        "const shown = (cell) => getComputedStyle(cell, '::before').content + cell.textContent;"
        "return [...arguments[0].cells].slice(1).map(shown)",
        bob,
    )
    assert shown[:3] == ['"requests "1', '"mutations admitted "7', '"mutations rejected "0']


def test_of_all_tenants_the_one_with_the_lowest_tokens_is_among_the_three_that_are_drawn(page):
    """-176 % of the burst of 55 are -96.8 tokens."""
    busy = [decision(DAY, user=user, admitted=[50], tokens=-10.0) for user in ("a", "b", "c")]
    driver = page({"decisions": [*busy, decision(DAY + HOUR, user="quiet", admitted=[1], tokens=-96.8)]})
    shown = text(driver, "#tokens .text")
    assert shown.startswith("The lowest was -176 % of the burst, of user 'quiet', at 2026-11-21 01:00 UTC.")
    assert "-176 %" in text(driver, "#tenants-table tbody")
    labels = driver.find_elements(By.CSS_SELECTOR, "#tokens .u-legend .u-series:not(:first-child) .u-label")
    assert [label.text for label in labels] == ["user 'quiet'", "user 'a'", "user 'b'"]


def test_effects_of_other_quotas_are_a_table(page):
    load = Totals(9, 1, admitted=80, rejected=3, throttled_seconds=61.5, newly_admitted=0, newly_rejected=3, peak=40)
    driver = page(candidates=Candidates([CandidateTotals("twice as much", "user 'alice'", load)], left_out=7))
    assert "The busiest senders are shown; 7 are not shown." in text(driver, "[aria-labelledby=candidates-head]")
    assert text(driver, "#candidates-table tbody").split("\t") == [
        "twice as much",
        "user 'alice'",
        "80",
        "3",
        "1 min 2 s",
        "40",
    ]
    assert console_messages(driver) == []


def test_a_report_on_one_user_has_their_name(page):
    driver = page(wanted=ReportScope(user="bob"))
    assert text(driver, "h1") == "Topic mutations of user 'bob'"
    assert "do not belong to a user" in text(driver, "#letters-table")
