"""The page of the dashboard in a real browser, with a given state instead of one read from Kafka."""

import math
import re

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from jobs.dashboard.feed import Contact
from jobs.dashboard.server import serve_dashboard
from quota.kafka.timing import now_ms
from quota.records.entity import QuotaEntity
from quota.settings import load_settings
from tests.browser.given_feed import GivenFeed
from tests.browser.window import (
    console_messages,
    painted,
    requested_urls,
    rows,
    set_window,
    text,
    tiles,
)
from tests.support.factories import decided
from tests.support.waiting import until

NASTY = "</script><script>document.title = 'mine'</script><img src=x onerror=\"document.title = 'mine'\">"


@pytest.fixture
def feed():
    """The feed of the page."""
    return GivenFeed(load_settings(["dashboard.port=0"], environment={}))


@pytest.fixture
def page(browser, feed):
    """Return the page after its first update from the feed."""
    with serve_dashboard(load_settings(["dashboard.port=0"], environment={}), feed=feed) as url:
        browser.get(url)
        until(lambda: text(browser, "#contact") == "Live")
        yield browser
        browser.get("about:blank")


def is_open(driver):
    return driver.execute_script("return document.getElementById('dialog').open")


def tab_to_first_decision(driver):
    """Press Tab until the focus is on its button."""
    wanted = driver.find_element(By.CSS_SELECTOR, "#decisions-table tbody tr button")
    for _ in range(60):
        driver.switch_to.active_element.send_keys(Keys.TAB)
        if driver.switch_to.active_element == wanted:
            return wanted
    raise AssertionError("it cannot be reached by Tab")


def test_any_number_of_tabs_can_be_open_and_the_one_that_is_seen_is_live(page, feed):
    """A browser allows six connections to a host, of which each tab that is seen keeps one for its stream."""
    url, first = page.current_url, page.current_window_handle
    page.set_page_load_timeout(20)
    try:
        for _ in range(7):
            page.switch_to.new_window("tab")
            page.get(url)
            until(lambda: text(page, "#contact") == "Live")
        feed.storm()
        until(lambda: len(rows(page, "decisions-table")) == 3)
        page.switch_to.window(first)
        until(lambda: len(rows(page, "decisions-table")) == 3)
        assert text(page, "#contact") == "Live"
    finally:
        for handle in {*page.window_handles} - {first}:
            page.switch_to.window(handle)
            page.close()
        page.switch_to.window(first)


def test_new_decisions_appear_without_a_reload_and_from_nowhere_else(page, feed):
    assert text(page, "#empty").startswith("No request has been decided in the last hour.")
    feed.storm()
    until(lambda: len(rows(page, "decisions-table")) == 3)
    assert not page.find_element(By.ID, "empty").is_displayed()
    until(lambda: tiles(page)["Mutations rejected"] == "120")
    assert tiles(page)["Mutations admitted"] == "60"
    assert "rejected" in rows(page, "decisions-table")[0]
    (tenant,) = until(lambda: rows(page, "tenants-table"))
    assert "user 'alice'" in tenant
    assert "of 55" in tenant
    assert console_messages(page) == []
    requested = requested_urls(page)
    assert page.current_url in requested
    assert [url for url in requested if not url.startswith((page.current_url, "about:", "data:"))] == []
    page.find_element(By.ID, "rejected-only").click()
    until(lambda: len(rows(page, "decisions-table")) == 2)


def test_it_says_which_process_decides(page, feed):
    assert text(page, "#active") == ""
    feed.active = "process 4711 on node-3, since 2026-11-29T21:36:10.123Z"
    until(lambda: text(page, "#active") == f"enforce is active in {feed.active}.")


def test_a_bucket_fills_up_between_decisions(page, feed):
    """From K = -5, at a rate of 5, it takes twelve seconds up to 55."""
    feed.storm()

    def tokens():
        amount = page.execute_script("return document.querySelector('#tenants-table .amount')?.textContent")
        return float(amount.partition(" of ")[0]) if amount else math.nan

    until(lambda: tokens() < 50)
    first = tokens()
    until(lambda: tokens() > max(first, 0) + 2)
    assert page.execute_script("return document.querySelector('#tenants-table .level').className") == "level"


def test_a_debt_is_never_shown_as_zero(page, feed):
    feed.storm(tokens_before=-0.04, tokens=-1e-10)
    shown = until(lambda: rows(page, "decisions-table"))
    assert "\t-0.1 → 0\t" in shown[0]


def test_a_quota_change_appears_with_its_comment_as_text(page, feed):
    feed.set_quota(QuotaEntity("alice"), 10.0, comment="<b>more</b>")
    newest = until(lambda: (changes := rows(page, "changes-table")) and len(changes) == 2 and changes[0])
    assert "rate 5 -> 10" in newest
    assert "<b>more</b>" in newest


def test_names_are_text(page, feed):
    feed.state.record_letter(f"{NASTY}: no field", now_ms())
    feed.storm(user=NASTY, client_id=NASTY, user_tag=NASTY)
    until(lambda: len(rows(page, "decisions-table")) == 3)
    assert "<script>document.title" in text(page, "#tiles")
    assert "<script>document.title" in rows(page, "decisions-table")[0]
    assert "<script>document.title" in rows(page, "tenants-table")[0]
    page.find_element(By.CSS_SELECTOR, "#decisions-table button").click()
    until(lambda: "<script>document.title" in text(page, "#dialog-body"))
    assert page.title == "Topic mutations, live · mutation-quota"
    assert console_messages(page) == []


def test_a_decision_is_explained_by_keyboard(page, feed):
    *_, last = feed.storm()
    until(lambda: len(rows(page, "decisions-table")) == 3)
    button = tab_to_first_decision(page)
    assert button.accessible_name.endswith(", alice, <none>, rejected: explain")
    button.send_keys(Keys.ENTER)
    until(lambda: "recomputed" in text(page, "#dialog-body"))
    assert text(page, "#dialog-title") == f"Decision {last.decision_id}"
    assert text(page, "#dialog-body").startswith("Creating topic 'topic-0' (60 mutations) was rejected because ")
    assert "rejected, since K = -4.99 < 0; K stays" in text(page, "#dialog-body")
    page.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not is_open(page)
    assert page.switch_to.active_element == button


def test_a_tenant_lists_its_decisions(page, feed):
    feed.storm()
    until(lambda: rows(page, "tenants-table"))
    page.find_element(By.CSS_SELECTOR, "#tenants-table tbody button").click()
    until(lambda: len(rows(page, "tenant-decisions")) == 3)
    assert "Quota: 5 mutations/s, at most 55 at once, set for user-principal 'alice'." in text(page, "#dialog-body")
    assert "USER" not in text(page, "#tenant-decisions thead").upper().split()  # it is in the title


def test_what_is_shown_has_an_address_that_shows_it_again(page, feed):
    """A filter, then the tenant, then a decision of its; the browser's Back goes the same way."""
    feed.storm()
    bob = feed.storm(user="bob", user_tag="bob")
    page.find_element(By.ID, "filter").send_keys("bob")
    (_,) = until(lambda: len(tenants := rows(page, "tenants-table")) == 1 and tenants)
    page.find_element(By.CSS_SELECTOR, "#tenants-table tbody button").click()
    until(lambda: len(rows(page, "tenant-decisions")) == 3)
    page.find_element(By.CSS_SELECTOR, "#tenant-decisions tbody tr:first-child button").click()
    until(lambda: "recomputed" in text(page, "#dialog-body"))
    address = page.current_url
    assert text(page, "#dialog-title") == f"Decision {bob[-1].decision_id}"

    page.get("about:blank")
    page.get(address)
    until(lambda: "recomputed" in text(page, "#dialog-body"))
    assert text(page, "#dialog-title") == f"Decision {bob[-1].decision_id}"
    assert page.execute_script("return document.getElementById('filter').value") == "bob"
    until(lambda: len(rows(page, "tenants-table")) == 1)
    page.switch_to.active_element.send_keys(Keys.ESCAPE)
    until(lambda: not is_open(page))
    assert page.current_url.endswith("#filter=bob")
    page.find_element(By.CSS_SELECTOR, "#tenants-table tbody button").click()
    until(lambda: is_open(page))
    page.back()
    until(lambda: not is_open(page))
    assert page.current_url.endswith("#filter=bob")


def test_a_dragged_period_is_that_of_all_charts_and_of_the_decisions(page, feed):
    feed.storm()
    until(lambda: len(rows(page, "decisions-table")) == 3)
    chart = page.find_element(By.CSS_SELECTOR, "#load .u-over")
    ActionChains(page).move_to_element_with_offset(chart, -chart.size["width"] // 4, 0).click_and_hold().move_by_offset(
        chart.size["width"] // 4, 0
    ).release().perform()
    until(lambda: text(page, "#period").startswith("Charts and decisions are of "))
    assert re.search(r"#from=\d+&to=\d+$", page.current_url)
    until(lambda: text(page, "#decisions-table").startswith("No such decisions since "))
    assert "No requests in this period." in text(page, "#load-text")
    page.execute_script("location.hash = '#from=1000&to=2000'")
    until(lambda: "mutation-quota report --from 1000 --to 2000" in text(page, "#period"))
    for wrong in ("from=yesterday&to=1", "from=1000", "from=2000&to=1000", "from=99999999999999&to=99999999999999999"):
        page.execute_script("location.hash = arguments[0]", wrong)
        until(lambda: text(page, "#period").startswith("The address has no valid period"))
        until(lambda: len(rows(page, "decisions-table")) == 3)
    page.find_element(By.ID, "period-end").click()
    until(lambda: len(rows(page, "decisions-table")) == 3)
    assert not page.find_element(By.ID, "period").is_displayed()


def test_tenants_are_sorted_by_a_column(page, feed):
    """Bob has rejected mutations, alice the most admitted ones."""
    feed.storm(user="bob", user_tag="bob")
    feed.state.record(decided(400, at=now_ms(), rate=50.0), now_ms())
    feed.state.refresh(now_ms(), feed.quotas, changed=False)
    until(lambda: len(rows(page, "tenants-table")) == 2)
    for head, first in (("Mutations admitted", "alice"), ("Mutations rejected", "bob")):
        page.find_element(By.XPATH, f"//button[text()='{head}']").click()
        until(lambda first=first: first in rows(page, "tenants-table")[0])
        (sorted_by,) = page.find_elements(By.CSS_SELECTOR, "#tenants-table [aria-sort=descending]")
        assert sorted_by.text.startswith(head)


def test_the_list_does_not_move_while_a_user_is_in_it(page, feed):
    feed.storm()
    until(lambda: len(rows(page, "decisions-table")) == 3)
    tab_to_first_decision(page)
    feed.storm()
    until(lambda: text(page, "#decisions-note").startswith("The list is not updated"))
    assert len(rows(page, "decisions-table")) == 3
    page.execute_script("document.activeElement.blur()")
    until(lambda: len(rows(page, "decisions-table")) == 6)
    assert text(page, "#decisions-note") == ""


def test_a_paused_page_does_not_change(page, feed):
    pause = page.find_element(By.ID, "pause")
    pause.click()
    assert pause.get_attribute("aria-pressed") == "true"
    feed.storm()
    until(lambda: page.execute_script("return document.getElementById('contact').textContent").startswith("Paused"))
    assert rows(page, "decisions-table") == []
    pause.click()
    until(lambda: len(rows(page, "decisions-table")) == 3)


def test_it_shows_when_kafka_is_unreachable_and_when_it_is_reachable_again(page, feed):
    feed.storm()
    until(lambda: len(rows(page, "decisions-table")) == 3)
    feed.contact = Contact("unreachable", "cannot read answers from Kafka", 1_795_266_000_000)
    until(
        lambda: text(page, "#contact").startswith("Cannot read answers from Kafka. Retrying; the data is from 13:00:00")
    )
    assert len(rows(page, "decisions-table")) == 3
    feed.answers()
    until(lambda: text(page, "#contact") == "Live")


def test_it_shows_when_the_dashboard_itself_is_unreachable(browser, feed):
    with serve_dashboard(load_settings(["dashboard.port=0"], environment={}), feed=feed) as url:
        browser.get(url)
        until(lambda: text(browser, "#contact") == "Live")
    until(lambda: text(browser, "#contact").startswith("No connection to the dashboard"))


def test_on_a_phone_nothing_is_wider_than_the_screen(page, feed):
    set_window(page, 390, 800)
    feed.storm()
    feed.storm(user="x" * 300, client_id="y" * 300, user_tag="x" * 300)
    until(lambda: len(rows(page, "decisions-table")) == 6)
    assert page.execute_script("return document.documentElement.scrollWidth") == 390
    widths = page.execute_script(
        "return [...document.querySelectorAll('.scroll')].map((box) => box.scrollWidth - box.clientWidth)"
    )
    assert max(widths) <= 1
    assert painted(page) == 4


def test_texts_have_enough_contrast_in_both_schemes(page, feed):
    """The contrast is the ratio that WCAG 2 requires of small text."""
    feed.storm()
    until(lambda: rows(page, "tenants-table"))
    for scheme in ("light", "dark"):
        set_window(page, scheme=scheme)
        for text_color in ("--text", "--text-2", "--bad", "--accent"):
            assert page.execute_script(CONTRAST, text_color, "--card") >= 4.5, (scheme, text_color)
    dark = page.find_element(By.TAG_NAME, "body").value_of_css_property("background-color")
    assert max(int(part) for part in dark.strip("rgba()").split(",")[:3]) < 40


CONTRAST = """
const [text, ground] = [...arguments].map((name) => {
  const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
    .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] + 0.05;
});
return Math.max(text, ground) / Math.min(text, ground);
"""


def test_a_configured_token_is_requested(browser, feed, tmp_path):
    token = tmp_path / "token"
    token.write_text("a token of some length\n")
    settings = load_settings(["dashboard.port=0", f"dashboard.token_file={token}"], environment={})
    with serve_dashboard(settings, feed=feed) as url:
        browser.get(f"{url}#filter=alice")
        browser.find_element(By.ID, "token").send_keys("another token, no less long", Keys.ENTER)
        until(lambda: "Wrong token." in text(browser, "main"))
        browser.find_element(By.ID, "token").send_keys("a token of some length", Keys.ENTER)
        until(lambda: browser.title == "Topic mutations, live · mutation-quota")
        until(lambda: text(browser, "#contact") == "Live")
        assert browser.current_url == f"{url}#filter=alice"
        browser.get("about:blank")
