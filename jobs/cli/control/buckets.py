"""`mutation-quota buckets`: how tenants' buckets stand, and what an operator may do to them."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from jobs.buckets.choice import Order, Wanted
from jobs.cli.control.entities import Client, User
from jobs.cli.options import (
    BootstrapServer,
    Comment,
    ConfigFile,
    EffectiveAt,
    Json,
    Overrides,
    command_group,
    operator,
    pair_of,
    settings_of,
    text_of,
)
from jobs.cli.times import later_moment, shown
from quota.errors import BadInput
from quota.records.entity import written_tags
from quota.records.quota_log import ResetRecord

app = command_group("See how buckets stand, forgive debts, and take buckets along to another checkpoint.")

Tag = Annotated[
    list[str] | None, typer.Option("--tag", metavar="NAME=VALUE", help="A tag of a callback's, such as group=pay.")
]


@app.command(name="list")
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
    wanted = Wanted(_tags(user, client, tag), in_debt, sort, limit)
    from jobs.buckets.listing import HEAD, bucket_line
    from jobs.cli.control.quota_text import print_json
    from jobs.services import enforce as service

    found = service.list_buckets(settings, wanted)
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


@app.command()
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
    moment = later_moment("--effective-at", effective_at)
    settings = settings_of(context, overrides, config, server)
    record = ResetRecord(bucket, moment, operator(settings), text_of("comment", comment))
    from quota.kafka.quota_writer import write_record
    from quota.kafka.topics.specs import prepare_topics

    prepare_topics(settings, [settings.topics.quotas])
    since = write_record(settings, record)
    print(f"Reset buckets with {written_tags(bucket)} from {shown(since)} on.")


@app.command()
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
    from jobs.services.enforce import export_buckets

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
