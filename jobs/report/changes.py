"""Changes of the quota log, as a report tells of them."""

import msgspec

from jobs.report.figures import Change
from quota.records.entity import QuotaEntity
from quota.text import format_configs, format_tags, format_time, printable


def change_of_row(  # noqa: PLR0913 the columns of a row
    *,
    at: int,
    kind: str,
    at_once: bool,
    entity: str | None,
    rate: float | None,
    burst: float | None,
    max_debt_ms: int | None,
    shadow: bool | None,
    bucket: str | None,
    callback: str | None,
    altered_by: str | None,
    comment: str | None,
) -> Change:
    """A row of the table `quota_changes`, for people, and whom it concerns."""
    named: dict[str, str] = {}
    match kind:
        case "quota" | "cancel":
            whose = QuotaEntity.of_key(entity or "")
            parts = {"user": whose.user, "client-id": whose.client_id}
            named = {part: name for part, name in parts.items() if isinstance(name, str)}
            configs = {"burst": burst, "max_debt_ms": max_debt_ms, "shadow": shadow}
            set_to = "removed" if rate is None else f"{rate:g} mutations/s {format_configs(configs)}".rstrip()
            # What is taken back too late has held, and its record repeats it (`quota.timeline.change.change_of`).
            holds = kind == "quota" or at_once
            what = f"{whose}: {set_to}" if holds else f"{whose}: the change for {format_time(at)} taken back"
        case "bucket_reset":
            named = msgspec.json.decode(bucket or "{}", type=dict[str, str])
            what = f"buckets with {format_tags(named)} reset"
        case "callback_cancel" if not at_once:
            what = f"callback: the change for {format_time(at)} taken back"
        case _:
            what = f"callback: {printable(callback) if callback else 'that of the settings'}"
    return Change(
        at, what, named.get("user"), named.get("client-id"), printable(altered_by or ""), printable(comment or "")
    )
