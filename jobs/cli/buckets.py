"""`mutation-quota buckets`: listing, describing, resetting and exporting buckets."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated

import typer

from jobs.cli.options import (
    Client,
    Comment,
    ConfirmOptions,
    EffectiveAt,
    FileOptions,
    KafkaOptions,
    SettingsOptions,
    User,
    parse_effective_at,
    parse_pair,
)
from jobs.cli.output import OutputOptions, labelled, print_text
from jobs.cli.quotas.changes import prepare_quota_topic, read_log, sign
from jobs.cli.quotas.resolve import find_quota
from jobs.cli.tables import Columns, print_rows
from quota.errors import BadInput
from quota.explanation.explanation_text import format_shares
from quota.kafka.timing import now_ms
from quota.records.quota_log import ResetRecord
from quota.records.request import ANONYMOUS, NO_CLIENT_ID
from quota.settings import Settings
from quota.text import describe_sharing, format_duration, format_tags, format_time, format_tokens, plural
from schemas.documents.quotas import DescribedBucket, ResetBuckets

_COLUMNS: Columns = {
    "BUCKET": "bucket",
    "TOKENS": "tokens_now",
    "BURST": "burst",
    "RATE/S": "rate",
    "DEBT ENDS IN": "debt_ends_in_ms",
    "FULL IN": "full_in_ms",
    "CHANGED": "updated_at",
}

Tag = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="NAME=VALUE", help="Tag of a callback's bucket, such as group=pay. Repeatable."),
]


def list_buckets(
    user: User = None,
    client: Client = None,
    tag: Tag = None,
    in_debt: Annotated[
        bool, typer.Option("--in-debt", help="Only buckets in debt: strict requests charged to them are rejected.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Print at most the first N.")] = 1000,
    *,
    from_checkpoint: Annotated[
        bool, typer.Option("--from-checkpoint", help="Read the state of enforce itself, with Spark: about 15 s.")
    ] = False,
    output: OutputOptions,
    where: SettingsOptions,
) -> None:
    """List token buckets and their debts.

    Those with the lowest tokens come first. Reads the last decision of each bucket from the audit's table, which is
    some ten seconds behind; without an audit, the last finished batch of enforce (--from-checkpoint). A later quota
    change or reset shows up after the next request; see `quotas resolve`.

    Examples:
      mutation-quota buckets list --in-debt
      mutation-quota buckets list --user alice -o json
    """
    settings = where.read()
    from jobs.buckets.listing import BucketSelection
    from jobs.buckets.listing import list_buckets as find

    selection = BucketSelection(_parse_tags(user, client, tag), in_debt, limit)
    listing = find(settings, selection, now_ms, from_checkpoint=from_checkpoint)

    def table() -> None:
        print_rows(listing.buckets, _COLUMNS, optional=("CHANGED", "FULL IN", "BURST", "RATE/S"))
        if listing.as_of is not None:
            print(f"as of {format_time(listing.as_of)}, the newest decision in the audit's table", file=sys.stderr)

    none = "no buckets: nothing has been charged yet" if selection.is_all else "no such buckets"
    output.print_found(listing, table, items="buckets", none=none, selected=not selection.is_all)
    if listing.left_out:
        print(f"and {listing.left_out} more (--limit)", file=sys.stderr)


def describe(
    user: User = None,
    client: Client = None,
    mutations: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Also show when N mutations (partitions) fit.")
    ] = None,
    *,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """Show what a client may do now, and when a number of mutations fits.

    Shows the quota that applies now, the tokens of its bucket, who was charged to it in the last hour, and the
    scheduled changes. Without an audit, Spark reads the bucket from the checkpoint in about 15 s.

    Examples:
      mutation-quota buckets describe --user alice
      mutation-quota buckets describe --user alice --client app --mutations 500 -o json
    """
    settings = kafka.read()
    log = read_log(settings)
    sender = user or ANONYMOUS, client or NO_CLIENT_ID
    resolution = find_quota(settings, log.quotas, *sender, log.now)
    from msgspec.structs import replace

    from jobs.audit.quota_history import scheduled_changes, scheduled_for
    from jobs.audit.tables import MissingTable
    from jobs.audit.usage import last_hour
    from jobs.buckets.listing import BucketSelection, describe_bucket
    from jobs.buckets.listing import list_buckets as find

    listed, charged = None, dict[str, int]()
    if resolution.limit:
        selection = BucketSelection(dict(resolution.tags.items()), alone=True)
        listed = next(iter(find(settings, selection, now_ms).buckets), None)
        with suppress(MissingTable):
            charged = last_hour(settings, resolution.tags, log.now)
    document = describe_bucket(listed, resolution, log.now, mutations, settings.quota.window)
    scheduled = scheduled_for(scheduled_changes(log.quotas, log.now), *sender, resolution.entity, resolution.tags)
    document = replace(document, last_hour=charged, scheduled=scheduled)

    def text() -> None:
        for label, line in _described(document):
            print(labelled(label, line))
        for change in scheduled:
            print(labelled("Scheduled", change.change))

    output.print(document, text)


def _described(described: DescribedBucket) -> Iterator[tuple[str, str]]:
    if described.quota is None or described.tokens is None:
        yield "Now", "unlimited: no quota applies"
        return
    yield "Bucket", describe_sharing(described.bucket or {})
    yield "Quota", str(described.quota)
    left, burst = format_tokens(described.tokens), f"{described.burst:,.10g}"
    if described.debt_ends_in_ms:
        until = "shadow mode admits all, and it ends" if described.quota.shadow else "strict clients are admitted again"
        yield "Now", f"none, in debt with {left} tokens: {until} {_moment(described.at, described.debt_ends_in_ms)}"
    else:
        yield "Now", f"{left} mutations without a debt, of at most {burst}"
    if described.mutations is not None:
        yield f"{described.mutations:,}", _fitting(described, described.mutations, described.quota.topic_limit)
    if described.last_hour:
        yield "Last hour", format_shares(described.last_hour)


def _fitting(described: DescribedBucket, mutations: int, limit: float) -> str:
    split = f", and a topic may cost at most {limit:,} of them" if mutations > limit else ""
    if described.fits_in_ms is not None:
        return f"fit {_moment(described.at, described.fits_in_ms)}{split}"
    paid = _moment(described.at, described.paid_in_ms or 0)
    return f"more than the burst of {described.burst:,.10g}: made as soon as admitted, paid off {paid}{split}"


def _moment(at: int, in_ms: int) -> str:
    return f"in {format_duration(in_ms)}, at {format_time(at + in_ms)}" if in_ms else "now"


def reset(
    user: User = None,
    client: Client = None,
    tag: Tag = None,
    effective_at: EffectiveAt = None,
    comment: Comment = None,
    *,
    confirmation: ConfirmOptions,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """Forgive debts: make buckets full again.

    Resets the buckets of a user, of a client-id, or of both together, after confirmation. A user's reset includes the
    buckets of each of their client-ids, but not a group's bucket into which a callback puts them: `quotas resolve`
    shows its tags. --dry-run counts the buckets that match, as `buckets list` does.

    Examples:
      mutation-quota buckets reset --user alice --dry-run
      mutation-quota buckets reset --tag group=payments --yes
    """
    bucket = _parse_tags(user, client, tag)
    if not bucket or "" in bucket.values():
        raise BadInput("whose buckets? give --user NAME, --client NAME, --tag NAME=VALUE or several of them")
    moment = parse_effective_at(effective_at)
    confirmation.check(output)
    settings = kafka.read()
    if confirmation.dry_run:
        count = _count(settings, bucket)
        output.print(
            ResetBuckets(bucket, False, count, None),
            lambda: print_text(f"Would reset {plural(count, 'bucket')} with {format_tags(bucket)}."),
        )
        return
    confirmation.confirm(f"Reset all buckets with {format_tags(bucket)}, which forgives their debts?")
    from quota.kafka.quotas.writer import write_record

    prepare_quota_topic(settings)
    since = write_record(settings, sign(ResetRecord(bucket), comment, moment))
    output.print(
        ResetBuckets(bucket, True, None, since),
        lambda: print_text(f"Reset all buckets with {format_tags(bucket)}, if any, from {format_time(since)} on."),
    )


def export(*, file: FileOptions, output: OutputOptions, where: SettingsOptions) -> None:
    """Export all buckets to a file.

    enforce must be stopped. `enforce --reset-state --buckets FILE` starts another checkpoint with them, for example
    with another number of state partitions. Starts Spark, which takes about 15 s.

    Examples:
      mutation-quota buckets export --output-file buckets.jsonl
      mutation-quota buckets export --output-file /backup/buckets.jsonl --force
    """
    file.check(output)
    settings = where.read()
    from jobs.buckets.store import export_buckets

    saved = export_buckets(settings)
    with file.open() as out:
        saved.write(out)
    file.print_written(output, plural(len(saved.buckets), "bucket"), bucket_count=len(saved.buckets))


def _count(settings: Settings, bucket: dict[str, str]) -> int:
    from jobs.buckets.listing import BucketSelection
    from jobs.buckets.listing import list_buckets as find

    listing = find(settings, BucketSelection(bucket), now_ms)
    return len(listing.buckets) + listing.left_out


def _parse_tags(user: str | None, client: str | None, pairs: list[str] | None) -> dict[str, str]:
    tags = {"user": user, "client-id": client, **dict(parse_pair("tag", pair) for pair in pairs or [])}
    return {tag: value for tag, value in tags.items() if value is not None}
