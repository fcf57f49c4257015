"""The live view: what was decided in the last seconds, and how each bucket stands."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from quota.bucket import Window
from quota.decision import DeadLetter, Decision
from quota.entity import quoted
from quota.kafka.requests import Heard

_SECONDS = 10.0
_BUCKETS = 20
_LATENCIES = 1000


@dataclass(slots=True)
class _BucketView:
    last: Decision
    admitted: int = 0
    refused: int = 0


class View:
    """Adds up answers as they come, and draws them; the caller gives the time (seconds since the epoch)."""

    def __init__(self, title: str, window: Window) -> None:
        self._title = title
        self._window = window
        self._recent: deque[float] = deque()
        self._latencies: deque[int] = deque(maxlen=_LATENCIES)
        self._buckets: dict[tuple[str, str], _BucketView] = {}
        self.admitted = 0
        self.refused = 0
        self.dead_letters = 0

    def hear(self, heard: Heard, now: float) -> None:
        """Take note of an answer."""
        if isinstance(heard.answer, DeadLetter):
            self.dead_letters += 1
        if not isinstance(heard.answer, Decision):
            return
        decision = heard.answer
        self._recent.append(now)
        self._latencies.append(heard.at - decision.timestamp)
        bucket = self._buckets.setdefault((decision.user_tag, decision.client_tag), _BucketView(decision))
        bucket.last = decision
        for topic in decision.topics:
            if topic.error_code:
                bucket.refused += 1
                self.refused += 1
            else:
                bucket.admitted += 1
                self.admitted += 1

    def draw(self, now: float) -> RenderableType:
        """The view as it stands."""
        table = Table("user", "client-id", box=box.SIMPLE_HEAD, expand=True)
        for name in ("quota/s", "tokens", "of burst", "throttled s", "admitted", "refused"):
            table.add_column(name, justify="right")
        busiest = sorted(self._buckets.values(), key=lambda bucket: -(bucket.admitted + bucket.refused))
        for bucket in busiest[:_BUCKETS]:
            self._add_bucket(table, bucket, now)
        left_out = len(self._buckets) - _BUCKETS
        footer = f"and {left_out} more buckets" if left_out > 0 else "Ctrl-C ends it"
        return Group(Text(self._title, style="bold"), Text(self.line(now)), table, Text(footer, style="dim"))

    def line(self, now: float) -> str:
        """The totals in one line."""
        while self._recent and self._recent[0] < now - _SECONDS:
            self._recent.popleft()
        p50, p99 = (_share(self._latencies, percent) for percent in (50, 99))
        return (
            f"{len(self._recent) / _SECONDS:.1f} decisions/s, p50 {p50} ms, p99 {p99} ms; "
            f"topics: {self.admitted} admitted, {self.refused} refused; dead letters: {self.dead_letters}"
        )

    def _add_bucket(self, table: Table, bucket: _BucketView, now: float) -> None:
        last = bucket.last
        user, client = (_legible(tag) if tag else "*" for tag in (last.user_tag, last.client_tag))
        if last.quota is None or last.tokens is None:
            table.add_row("*", "*", "unlimited", "", "", "", str(bucket.admitted), str(bucket.refused))
            return
        burst = self._window.burst(last.quota)
        tokens = min(last.tokens + max(0.0, now - last.timestamp / 1000) * last.quota, burst)
        throttled = max(0.0, last.retry_at / 1000 - now)
        table.add_row(
            Text(user),
            Text(client),
            f"{last.quota:g}",
            Text(f"{tokens:.0f}", style="red" if tokens < 0 else "green"),
            f"{burst:.0f}",
            f"{throttled:.1f}" if throttled else "",
            str(bucket.admitted),
            Text(str(bucket.refused), style="red" if bucket.refused else ""),
        )


def _legible(name: str) -> str:
    """A name as it is, where nobody can take it for another one."""
    return name if name.isascii() and name.isprintable() else quoted(name)


def _share(values: Sequence[int], percent: int) -> str:
    if not values:
        return "-"
    return str(sorted(values)[min(len(values) - 1, len(values) * percent // 100)])
