"""The live view: what was decided in the last seconds, and how each bucket stands."""

from collections import deque
from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from jobs.metrics.tenants import TenantMetrics
from jobs.metrics.totals import DecisionTotals
from quota.algorithms.bucket import Window
from quota.kafka.requests import ReceivedAnswer
from quota.records.decision import Decision
from quota.text import quoted

_SECONDS = 10.0
_BUCKETS = 20
_LATENCIES = 1000
_KEPT = 5000
"""Tenants that are added up."""


class View:
    """Adds up answers as they come, and draws them; the caller gives the time (seconds since the epoch)."""

    def __init__(self, title: str, window: Window) -> None:
        self._title = title
        self._account = DecisionTotals(window, _KEPT)
        self._recent: deque[float] = deque()
        self._latencies: deque[int] = deque(maxlen=_LATENCIES)

    def hear(self, heard: ReceivedAnswer, now: float) -> None:
        """Take note of an answer."""
        self._account.hear(heard.answer, heard.at)
        if isinstance(heard.answer, Decision):
            self._recent.append(now)
            self._latencies.append(heard.at - heard.answer.timestamp)

    def draw(self, now: float) -> RenderableType:
        """The view as it stands."""
        table = Table("user", "client-id", box=box.SIMPLE_HEAD, expand=True)
        for name in ("quota/s", "tokens", "of burst", "throttled s", "admitted", "refused"):
            table.add_column(name, justify="right")
        tenants = self._account.tenants.kept
        tenants.sort(key=lambda tenant: -(tenant.topics_admitted + tenant.topics_refused))
        for tenant in tenants[:_BUCKETS]:
            _add_row(table, tenant, now)
        left_out = len(tenants) - _BUCKETS
        footer = f"and {left_out} more buckets" if left_out > 0 else "Ctrl-C ends it"
        return Group(Text(self._title, style="bold"), Text(self.line(now)), table, Text(footer, style="dim"))

    def line(self, now: float) -> str:
        """The totals in one line."""
        while self._recent and self._recent[0] < now - _SECONDS:
            self._recent.popleft()
        p50, p99 = (_share(self._latencies, percent) for percent in (50, 99))
        account = self._account
        return (
            f"{len(self._recent) / _SECONDS:.1f} decisions/s, p50 {p50} ms, p99 {p99} ms; "
            f"topics: {account.topics_admitted} admitted, {account.topics_refused} refused; "
            f"dead letters: {account.dead_letters}"
        )


def _add_row(table: Table, tenant: TenantMetrics, now: float) -> None:
    last, now_ms = tenant.last, round(now * 1000)
    admitted, refused = str(tenant.topics_admitted), str(tenant.topics_refused)
    if not tenant.is_limited:
        table.add_row("*", "*", "unlimited", "", "", "", admitted, refused)
        return
    user, client = (_legible(tag) if tag else "*" for tag in (last.user_tag, last.client_tag))
    tokens, throttled = tenant.tokens(now_ms), max(0.0, last.retry_at / 1000 - now)
    table.add_row(
        Text(user),
        Text(client),
        f"{last.quota:g}",
        Text(f"{tokens:.0f}", style="red" if tokens < 0 else "green"),
        f"{tenant.burst:.0f}",
        f"{throttled:.1f}" if throttled else "",
        admitted,
        Text(refused, style="red" if tenant.topics_refused else ""),
    )


def _legible(name: str) -> str:
    """A name as it is, where nobody can take it for another one."""
    return name if name.isascii() and name.isprintable() else quoted(name)


def _share(values: Sequence[int], percent: int) -> str:
    if not values:
        return "-"
    return str(sorted(values)[min(len(values) - 1, len(values) * percent // 100)])
