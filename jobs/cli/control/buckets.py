"""`mutation-quota buckets`: how tenants' buckets stand, and what an operator may do to them."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from jobs.buckets.listing import BucketQuery, ListedBucket, Order
from jobs.cli.options import (
    BootstrapServer,
    Client,
    Comment,
    ConfigFile,
    EffectiveAt,
    Json,
    Overrides,
    User,
    operator,
    pair_of,
    print_json,
    settings_of,
    text_of,
)
from jobs.cli.times import parse_future_time
from quota.algorithms.bucket import MAX_THROTTLE_MS
from quota.errors import BadInput
from quota.records.quota_log import ResetRecord
from quota.text import format_tags, format_time

HEAD = f"{'K now':>12} {'of B':>12} {'rate/s':>10} {'debt ends in':>18} {'full in':>18}  {'last changed':24}  bucket"


def bucket_line(row: ListedBucket) -> str:
    """A bucket, for people; `HEAD` says what stands where."""
    debt = _duration(row.debt_ends_in_ms) if row.in_debt else "-"
    full = _duration(row.full_in_ms) if row.full_in_ms else "full"
    numbers = f"{row.tokens_now:>12.1f} {row.burst:>12g} {row.rate:>10g} {debt:>18} {full:>18}"
    return f"{numbers}  {format_time(row.updated_at)}  {format_tags(row.bucket)}"


def _duration(ms: int) -> str:
    """In whole seconds, rounded up."""
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
    settings = settings_of(context, overrides, config)
    wanted = BucketQuery(_tags(user, client, tag), in_debt, sort, limit)
    from jobs.buckets import store

    found = store.list_buckets(settings, wanted)
    if as_json:
        for each in found.buckets:
            print_json(each)
    elif found.buckets:
        print(HEAD)
        for each in found.buckets:
            print(bucket_line(each))
    else:
        print("No buckets: nothing was charged yet." if wanted.is_all else "No such buckets.")
    if found.left_out:
        print(f"and {found.left_out} more (--limit)", file=sys.stderr)


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
    bucket = _tags(user, client, tag)
    if not bucket or "" in bucket.values():
        raise BadInput("whose bucket? give --user NAME, --client NAME, --tag NAME=VALUE or several of them")
    moment = parse_future_time("--effective-at", effective_at)
    settings = settings_of(context, overrides, config, server)
    record = ResetRecord(bucket, moment, operator(settings), text_of("comment", comment))
    from quota.kafka.quota_writer import write_record
    from quota.kafka.topics.specs import prepare_topics

    prepare_topics(settings, [settings.topics.quotas])
    since = write_record(settings, record)
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
    settings = settings_of(context, overrides, config)
    if file.exists():
        raise BadInput(f"{file} is there already; name another file")
    from jobs.buckets.moving import export_buckets

    saved = export_buckets(settings, file)
    print(f"Wrote {saved.at.buckets} buckets to {file}.")


def _tags(user: str | None, client: str | None, more: list[str] | None) -> dict[str, str]:
    """The tags that the options name."""
    names = {
        "user": text_of("user", user),
        "client-id": text_of("client", client),
        **dict(pair_of("tag", each) for each in more or []),
    }
    return {tag: name for tag, name in names.items() if name is not None}
