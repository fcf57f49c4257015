"""The live view: totals of decisions, and the state of each bucket."""

from collections import deque
from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from jobs.metrics.tenants import TenantMetrics
from jobs.metrics.totals import DecisionTotals
from quota.algorithms.token_bucket import in_debt
from quota.kafka.requests import ReceivedAnswer
from quota.records.decision import Decision
from quota.records.quota import Window
from quota.text import format_tokens, legible, plural

_RATE_SECONDS = 10.0
_LATENCY_SECONDS = 60.0
_MAX_ROWS = 20
_MAX_LATENCIES = 20_000  # 300 decisions/s for a minute
_MAX_TENANTS = 5000
_NUMBERS = ("quota/s", "tokens", "burst", "throttled", "mutations\nadmitted", "mutations\nrefused")


class View:
    """A summary of answers as a table and as lines; callers pass the time (seconds since the epoch)."""

    def __init__(self, title: str, window: Window) -> None:
        self.title = title
        self._totals = DecisionTotals(window, _MAX_TENANTS)
        self._recent: deque[float] = deque()
        self._latencies: deque[tuple[float, int]] = deque(maxlen=_MAX_LATENCIES)
        self._quotes: dict[str, str] = {}

    @property
    def has_decisions(self) -> bool:
        """Whether there has been a decision."""
        return bool(self._totals.decisions)

    def record(self, received: ReceivedAnswer, now: float) -> None:
        """Add an answer to the totals."""
        self._totals.record(received.answer, received.at)
        if isinstance(received.answer, Decision):
            self._recent.append(now)
            self._latencies.append((now, received.at - received.answer.timestamp))

    def quote(self, client: str, output: str) -> None:
        """Show the last output of a client."""
        self._quotes[client] = output

    def draw(self, console: Console, now: float) -> RenderableType:
        """Return the view as a table, with as many buckets as the terminal has lines for."""
        totals, tenants = self._totals_lines(now), self._tenants()
        others = console.render_lines(self._drawn(totals, tenants, 0, now), pad=False)
        return self._drawn(totals, tenants, min(_MAX_ROWS, max(0, console.height - len(others))), now)

    def lines(self, now: float) -> list[str]:
        """Return the totals in one line, and a line for each client with output."""
        return ["; ".join(self._totals_lines(now)), *self._quoted()]

    def _tenants(self) -> list[TenantMetrics]:
        """Return the tenants, those with the most mutations first."""
        return sorted(
            self._totals.tenants.known,
            key=lambda tenant: -(tenant.mutations_admitted + tenant.mutations_refused),
        )

    def _drawn(
        self, totals: Sequence[str], tenants: Sequence[TenantMetrics], max_rows: int, now: float
    ) -> RenderableType:
        """Return the view with the buckets of the first `max_rows` tenants."""
        table = Table("user", "client-id", box=box.SIMPLE_HEAD, padding=0, show_edge=False)
        for name in _NUMBERS:
            table.add_column(name, justify="right", no_wrap=True)  # on a narrow terminal, names are truncated
        for tenant in tenants[:max_rows]:
            _add_row(table, tenant, now)
        left_out = len(tenants) - max_rows
        footer = f"and {plural(left_out, 'more bucket')}; " if left_out > 0 else ""
        quotes = (Text(each) for each in self._quoted())
        return Group(
            Text(self.title, style="bold"),
            Text("\n".join(totals)),
            table,
            *quotes,
            Text(f"{footer}Ctrl-C stops everything", style="dim"),
        )

    def _quoted(self) -> list[str]:
        return [f"{client} {output}" for client, output in self._quotes.items()]

    def _totals_lines(self, now: float) -> list[str]:
        while self._recent and self._recent[0] < now - _RATE_SECONDS:
            self._recent.popleft()
        while self._latencies and self._latencies[0][0] < now - _LATENCY_SECONDS:
            self._latencies.popleft()
        latencies = sorted(latency for _, latency in self._latencies)
        p50, p99 = (_percentile(latencies, percent) for percent in (50, 99))
        totals = self._totals
        counts = f"mutations: {totals.mutations_admitted:,} admitted, {totals.mutations_refused:,} refused"
        return [
            f"{len(self._recent) / _RATE_SECONDS:.1f} decisions/s, p50 {p50} ms, p99 {p99} ms in the last minute",
            f"{counts}; dead letters: {totals.dead_letters:,}",
        ]


def _add_row(table: Table, tenant: TenantMetrics, now: float) -> None:
    last, now_ms = tenant.last, round(now * 1000)
    admitted, refused = f"{tenant.mutations_admitted:,}", f"{tenant.mutations_refused:,}"
    if not tenant.is_limited:
        table.add_row("*", "*", "none", "", "", "", admitted, refused)
        return
    user, client = (legible(tag) if tag else "*" for tag in (last.user_tag, last.client_tag))
    tokens, throttled = tenant.tokens(now_ms), max(0.0, last.retry_at / 1000 - now)
    if not in_debt(tokens, last.tokens or 0.0):
        tokens = max(tokens, 0.0)
    table.add_row(
        Text(user),
        Text(client),
        f"{last.quota:g}",
        Text(format_tokens(tokens), style="red" if tokens < 0 else "green"),
        format_tokens(tenant.burst),
        f"{throttled:,.1f} s" if throttled else "",
        admitted,
        Text(refused, style="red" if tenant.mutations_refused else ""),
    )


def _percentile(values: Sequence[int], percent: int) -> str:
    if not values:
        return "-"
    return str(values[min(len(values) - 1, len(values) * percent // 100)])
