"""`mutation-quota buckets`: listing, resetting and exporting buckets."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from jobs.buckets.listing import BucketQuery, ListedBucket, Order
from jobs.cli.control.quota_log import prepare_quota_topic, sign
from jobs.cli.options import (
    BootstrapServer,
    Client,
    Comment,
    ConfigFile,
    EffectiveAt,
    Json,
    Overrides,
    User,
    parse_pair,
    print_json,
    read_settings,
)
from jobs.cli.times import parse_future_time
from quota.algorithms.token_bucket import MAX_THROTTLE_MS
from quota.errors import BadInput
from quota.kafka.timing import now_ms
from quota.records.quota_log import ResetRecord
from quota.text import format_tags, format_time

HEAD = f"{'K now':>12} {'of B':>12} {'rate/s':>10} {'debt ends in':>18} {'full in':>18}  {'last changed':24}  bucket"


def bucket_line(row: ListedBucket) -> str:
    """Return a bucket as a line below `HEAD`."""
    debt = _duration(row.debt_ends_in_ms) if row.in_debt else "-"
    full = _duration(row.full_in_ms) if row.full_in_ms else "full"
    numbers = f"{row.tokens_now:>12.1f} {row.burst:>12g} {row.rate:>10g} {debt:>18} {full:>18}"
    return f"{numbers}  {format_time(row.updated_at)}  {format_tags(row.bucket)}"


def _duration(ms: int) -> str:
    """Format a duration in whole seconds, rounded up."""
    seconds = timedelta(seconds=-(-ms // 1000))
    return f"over {seconds.days} days" if ms >= MAX_THROTTLE_MS else str(seconds)


Tag = Annotated[
    list[str] | None, typer.Option("--tag", metavar="NAME=VALUE", help="A tag of a callback's, such as group=pay.")
]


def list_buckets(
    context: typer.Context,
    user: User = None,
    client: Client = None,
    tag: Tag = None,
    in_debt: Annotated[bool, typer.Option("--in-debt", help="Only those whose tenants are refused now.")] = False,
    sort: Annotated[
        Order, typer.Option(help="By lowest tokens, longest time until full, latest change, highest rate, or name.")
    ] = Order.TOKENS,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the first ones.")] = 1000,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
) -> None:
    """List the buckets that were ever charged, as of the newest batch that enforce has finished; it may run meanwhile.

    What they hold now is by the rates that they were last used at: a quota that was changed since, or a reset, counts
    from their next use on, and quotas resolve tells it. With --json a line for each.
    """
    settings = read_settings(context, overrides, config)
    query = BucketQuery(_parse_tags(user, client, tag), in_debt, sort, limit)
    from jobs.buckets import store

    listing = store.list_buckets(settings, query, now_ms)
    if as_json:
        for each in listing.buckets:
            print_json(each)
    elif listing.buckets:
        print(HEAD)
        for each in listing.buckets:
            print(bucket_line(each))
    else:
        print("No buckets: nothing was charged yet." if query.is_all else "No such buckets.")
    if listing.left_out:
        print(f"and {listing.left_out} more (--limit)", file=sys.stderr)


def reset(
    context: typer.Context,
    user: User = None,
    client: Client = None,
    tag: Tag = None,
    effective_at: EffectiveAt = None,
    comment: Comment = None,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Make buckets as if never seen, full: those of a user, of a client-id, or of both together.

    A user's resets all of theirs, also those of each of their client-ids, but not the bucket of a group or the like
    that a callback puts them into: quotas resolve tells its tags.
    """
    bucket = _parse_tags(user, client, tag)
    if not bucket or "" in bucket.values():
        raise BadInput("whose bucket? give --user NAME, --client NAME, --tag NAME=VALUE or several of them")
    moment = parse_future_time("--effective-at", effective_at)
    settings = read_settings(context, overrides, config, server)
    from quota.kafka.quota_writer import write_record

    prepare_quota_topic(settings)
    since = write_record(settings, sign(ResetRecord(bucket), settings, comment, moment))
    print(f"Reset buckets with {format_tags(bucket)} from {format_time(since)} on.")


def export(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write, which must not be there.")],
    overrides: Overrides = None,
    config: ConfigFile = None,
) -> None:
    """Write all buckets of enforce, which is stopped, to a file.

    enforce --begin-anew --buckets FILE begins another checkpoint with them, as with other state partitions.
    """
    settings = read_settings(context, overrides, config)
    if file.exists():
        raise BadInput(f"{file} is there already; name another file")
    from jobs.buckets.moving import export_buckets

    saved = export_buckets(settings, file)
    print(f"Wrote {len(saved.buckets)} buckets to {file}.")


def _parse_tags(user: str | None, client: str | None, pairs: list[str] | None) -> dict[str, str]:
    tags = {"user": user, "client-id": client, **dict(parse_pair("tag", each) for each in pairs or [])}
    return {tag: value for tag, value in tags.items() if value is not None}
