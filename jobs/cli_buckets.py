"""`mutation-quota buckets`: what an operator may do to a tenant's bucket."""

from pathlib import Path
from typing import Annotated

import typer

from jobs.cli_entities import Client, User
from jobs.moments import later_moment, shown
from jobs.options import (
    BootstrapServer,
    Comment,
    ConfigFile,
    EffectiveAt,
    Overrides,
    command_group,
    operator,
    pair_of,
    settings_of,
    text_of,
)
from quota.entity import written_tags
from quota.errors import BadInput
from quota.log_record import ResetRecord

app = command_group("Forgive debts, and take buckets along to another checkpoint.")


@app.command()
def reset(
    context: typer.Context,
    user: User = None,
    client: Client = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="NAME=VALUE", help="A tag of a callback's, such as group=pay.")
    ] = None,
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
    names = {
        "user": text_of("user", user),
        "client-id": text_of("client", client),
        **dict(pair_of("tag", each) for each in tag or []),
    }
    bucket = {tag: name for tag, name in names.items() if name is not None}
    if not bucket or "" in bucket.values():
        raise BadInput("whose bucket? give --user NAME, --client NAME, --tag NAME=VALUE or several of them")
    moment = later_moment("--effective-at", effective_at)
    settings = settings_of(context, overrides, config, server)
    record = ResetRecord(bucket, moment, operator(settings), text_of("comment", comment))
    from quota.kafka.quota_store import write_record
    from quota.kafka.topics import prepare_topics

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
    from jobs.service import export_buckets

    saved = export_buckets(settings, file)
    print(f"Wrote {saved.at.buckets} buckets to {file}.")
