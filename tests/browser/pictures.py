"""The pictures of the report and of the dashboard in docs/how-to/pictures (`make pictures`).

The report is of a day that is made up, and the dashboard of ten minutes, decided by the same code as everywhere.
"""

import base64
import random
import shutil
import sys
import tempfile
from pathlib import Path

from jobs.dashboard.report import ReportScope, report_on_tables
from jobs.dashboard.server import serve_dashboard
from quota.algorithms.token_bucket import TokenBucket
from quota.kafka.timing import now_ms
from quota.records.entity import QuotaEntity
from quota.records.quota_log import Window
from quota.settings import load_settings
from quota.whatif.simulation import simulate
from tests.browser.given_feed import GivenFeed
from tests.browser.window import headless_chromium, set_window
from tests.support.checkout import CHECKOUT
from tests.support.factories import request_json
from tests.support.tables import rows_of_a_day, write_tables
from tests.support.waiting import until

_FOLDER = CHECKOUT / "docs" / "how-to" / "pictures"
_WIDTH, _HEIGHT = 1280, 1770

_TENANTS = {  # user and client-id: the rate, seconds between requests, partitions of a request
    ("payments", "deployer"): (5.0, 4.0, [6]),
    ("search", "indexer"): (5.0, 3.0, [3, 3]),
    ("etl", "nightly-batch"): (20.0, 1.5, [8, 8, 8]),
    ("rogue", "loop"): (10.0, 0.25, [20, 20]),
    ("reports", "app"): (2.0, 20.0, [12]),
}
_SECONDS = 600


def main():
    """Draw the pictures."""
    paths = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in paths:
        sys.exit("pictures: install chromium and chromedriver (apt-get install chromium chromium-driver)")
    with headless_chromium(*paths) as driver, tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        tables = load_settings([f"storage.root={folder}/root"], environment={}, with_default_file=False)
        write_tables(tables, **rows_of_a_day())
        html = report_on_tables(tables, ReportScope()).page
        page.write_text(html.replace(f"in {folder}/root, for Kafka at", "of a day that is made up, for Kafka at"))
        driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        for scheme, name in (("light", "report.png"), ("dark", "report-dark.png")):
            set_window(driver, _WIDTH, _HEIGHT, scheme)
            driver.get(page.as_uri())
            _save(driver, name)
        settings = load_settings(["dashboard.port=0"], environment={}, with_default_file=False)
        with serve_dashboard(settings, feed=_busy_feed(settings)) as url:
            for scheme, name in (("light", "dashboard.png"), ("dark", "dashboard-dark.png")):
                set_window(driver, _WIDTH, _HEIGHT, scheme)
                driver.get(url)
                until(lambda: "payments" in driver.find_element("id", "tenants-table").text)
                _save(driver, name)
            driver.get("about:blank")


def _busy_feed(settings):
    """Return a feed that has read the last minutes of five tenants, one of which requests too much."""
    chance, begin = random.Random(599), now_ms() - _SECONDS * 1000
    feed = GivenFeed(settings)
    lines = []
    for (user, client), (rate, seconds, sizes) in _TENANTS.items():
        feed.set_quota(QuotaEntity(user), rate, at=begin)
        at = begin + chance.random() * seconds * 1000
        while at < begin + _SECONDS * 1000:
            lines.append((round(at), request_json(*sizes, timestamp=round(at), user=user, client_id=client)))
            at += chance.expovariate(1 / seconds) * 1000
    for answer in simulate((line for _, line in sorted(lines)), feed.quotas, TokenBucket(Window())):
        feed.state.record(answer, answer.timestamp + round(chance.lognormvariate(5.3, 0.45)))
    feed.state.refresh(now_ms(), feed.quotas, changed=False)
    return feed


def _save(driver, name):
    png = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
    (_FOLDER / name).write_bytes(base64.b64decode(png))
    sys.stdout.write(f"wrote {(_FOLDER / name).relative_to(CHECKOUT)}\n")


if __name__ == "__main__":
    main()
