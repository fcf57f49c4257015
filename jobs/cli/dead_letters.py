"""`mutation-quota dead-letters`: invalid records of the request topic, and sending them again."""

import sys
from collections.abc import Iterator
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.cli.options import BootstrapServer, ConfigFile, Json, KafkaOptions, Overrides, print_json, read_settings
from jobs.cli.output import OutputOptions, print_table
from jobs.cli.times import parse_time
from quota.errors import BadInput, NotFound
from quota.settings import Settings
from quota.text import format_time, printable
from schemas.documents.dead_letters import DeadLetters, ListedDeadLetter

if TYPE_CHECKING:
    from quota.kafka.dead_letters import StoredDeadLetter

_MAX_ERROR_CHARACTERS = 100
"""The length at which `list` cuts an error."""

LetterId = Annotated[str, typer.Argument(metavar="ID", help="topic-partition-offset, as list tells it.")]
Since = Annotated[str | None, typer.Option(metavar="TIME", help="Only later ones: ISO 8601, epoch ms, -2h.")]
Containing = Annotated[
    str | None, typer.Option("--error", metavar="TEXT", help="Only those whose error has this text.")
]


def list_letters(
    since: Since = None,
    error: Containing = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the latest.")] = 1000,
    *,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """List the dead letters that their topic still has; the table dead_letters keeps them all."""
    settings = kafka.read()
    matched = 0

    def counted() -> "Iterator[StoredDeadLetter]":
        nonlocal matched
        for letter in _read_matching(settings, since, error):
            matched += 1
            yield letter

    # Memory holds only the letters that are printed, however many there are.
    latest = nlargest(limit, counted(), key=_position)[::-1]
    left_out = matched - len(latest)

    def table() -> None:
        rows = ((format_time(each.at), each.letter_id, _shortened(each.letter.error)) for each in latest)
        if latest:
            print_table(("RECEIVED", "ID", "ERROR"), rows)
        else:
            print("No dead letters.")

    output.print(DeadLetters([_to_item(each) for each in latest], left_out), table, items="dead_letters")
    if left_out:
        print(f"and {left_out} earlier ones (--limit)", file=sys.stderr)


def show(
    context: typer.Context,
    letter_id: LetterId,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Show one: why it is none, on standard error, and the record as it came, to be mended in a file."""
    settings = read_settings(context, overrides, config, server)
    (stored,) = _read_by_id(settings, [letter_id])
    if as_json:
        print_json(_to_item(stored))
        return
    print(stored.letter.error, file=sys.stderr)
    sys.stdout.buffer.write(stored.letter.original_value + b"\n")


def resend(
    context: typer.Context,
    letter_ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Which, as list tells them.")
    ] = None,
    value: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The mended record of a single one; - for standard input.")
    ] = None,
    since: Since = None,
    error: Containing = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and tell, and send nothing.")] = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """Send records again: one that is mended, or as they are, where the reason is gone (a callback that failed).

    Either by their ids, or all that --since and --error leave. They are decided as of now; if one still is no
    request, none is sent.
    """
    settings = read_settings(context, overrides, config, server)
    if bool(letter_ids) == (since is not None or error is not None):
        raise BadInput("which? give their ids, or --since TIME or --error TEXT for all such")
    if value is not None and len(letter_ids or []) != 1:
        raise BadInput("--value FILE is the record of one dead letter: give its id alone")
    from quota.kafka.dead_letters import check, send

    found = _read_by_id(settings, letter_ids) if letter_ids else _read_matching(settings, since, error)
    letters = [(each, each.letter.original_value if value is None else _read_bytes(value)) for each in found]
    check(letters, settings.policy)
    if not dry_run:
        send(settings, letters)
    for each, _ in letters:
        print(f"{'Would send' if dry_run else 'Sent'} {each.letter_id} again.")


def _read_matching(settings: Settings, since: str | None, error: str | None) -> "Iterator[StoredDeadLetter]":
    from quota.kafka.dead_letters import read_dead_letters

    start = 0 if since is None else parse_time("--since", since)
    for each in read_dead_letters(settings):
        if each.at >= start and (error or "") in each.letter.error:
            yield each


def _position(stored: "StoredDeadLetter") -> tuple[int, str, int, int]:
    source = stored.letter.source
    return stored.at, source.topic, source.partition, source.offset


def _read_by_id(settings: Settings, ids: list[str]) -> "list[StoredDeadLetter]":
    from quota.kafka.dead_letters import read_dead_letters

    found = {each.letter_id: each for each in read_dead_letters(settings) if each.letter_id in ids}
    for each in ids:
        if each not in found:
            raise NotFound(f"{each}: no such dead letter in {settings.topics.dead_letters}; see dead-letters list")
    return [found[each] for each in dict.fromkeys(ids)]


def _read_bytes(file: Path) -> bytes:
    return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()


def _to_item(stored: "StoredDeadLetter") -> ListedDeadLetter:
    letter = stored.letter
    return ListedDeadLetter(stored.letter_id, letter.timestamp, letter.error, letter.value)


def _shortened(error: str) -> str:
    text = printable(error)
    return text if len(text) <= _MAX_ERROR_CHARACTERS else f"{text[: _MAX_ERROR_CHARACTERS - 3]}..."
