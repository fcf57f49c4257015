"""Describes the changes of the quota log for a report."""

from typing import NamedTuple

import msgspec

from jobs.report.figures import Change
from quota.records.entity import QuotaEntity
from quota.text import format_configs, format_tags, format_time, printable


class ChangeRow(NamedTuple):
    """A row of the query `jobs.report.queries.CHANGES`."""

    at: int
    kind: str
    at_once: bool
    entity: str | None
    rate: float | None
    burst: float | None
    max_debt_ms: int | None
    shadow: bool | None
    bucket: str | None
    callback: str | None
    altered_by: str | None
    comment: str | None


def describe_change(row: ChangeRow) -> Change:
    """Return a change with its description, and the user and client-id that it concerns."""
    names: dict[str, str] = {}
    match row.kind:
        case "quota" | "cancel":
            entity = QuotaEntity.from_key(row.entity or "")
            names = entity.names
            configs = {"burst": row.burst, "max_debt_ms": row.max_debt_ms, "shadow": row.shadow}
            value = "removed" if row.rate is None else f"{row.rate:g} mutations/s {format_configs(configs)}".rstrip()
            # A change that is cancelled too late has taken effect; its record repeats the quota that it cancels
            # (`quota.timeline.change.to_change`).
            in_force = row.kind == "quota" or row.at_once
            what = f"{entity}: {value}" if in_force else f"{entity}: the change for {format_time(row.at)} cancelled"
        case "bucket_reset":
            names = msgspec.json.decode(row.bucket or "{}", type=dict[str, str])
            what = f"buckets with {format_tags(names)} reset"
        case "callback_cancel" if not row.at_once:
            what = f"callback: the change for {format_time(row.at)} cancelled"
        case _:
            what = f"callback: {printable(row.callback) if row.callback else 'that of the settings'}"
    altered_by, comment = printable(row.altered_by or ""), printable(row.comment or "")
    return Change(row.at, what, names.get("user"), names.get("client-id"), altered_by, comment)
