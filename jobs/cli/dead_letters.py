"""`mutation-quota dead-letters`: what was no request, and sending it again."""

import sys
from collections.abc import Iterator
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobs.cli.options import BootstrapServer, ConfigFile, Json, Overrides, print_json, settings_of
from jobs.cli.times import parse_time
from quota.errors import BadInput
from quota.records.dead_letter import value_of
from quota.settings.model import Settings
from quota.text import format_time

if TYPE_CHECKING:
    from quota.kafka.dead_letters import StoredDeadLetter

_SHOWN = 100

LetterId = Annotated[str, typer.Argument(metavar="ID", help="topic-partition-offset, as list tells it.")]
Since = Annotated[str | None, typer.Option(metavar="TIME", help="Only later ones: ISO 8601, epoch ms, -2h.")]
Containing = Annotated[
    str | None, typer.Option("--error", metavar="TEXT", help="Only those whose error has this text.")
]


def list_letters(
    context: typer.Context,
    since: Since = None,
    error: Containing = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the latest.")] = 1000,
    as_json: Json = False,
    overrides: Overrides = None,
    config: ConfigFile = None,
    server: BootstrapServer = None,
) -> None:
    """List the dead letters that their topic still has; the table dead_letters keeps them all."""
    settings = settings_of(context, overrides, config, server)
    matched = 0

    def matching() -> "Iterator[StoredDeadLetter]":
        nonlocal matched
        for matched, each in enumerate(_matching(settings, since, error), start=1):  # noqa: B007 counted as they pass
            yield each

    # Of a flood of them the values of no more than these are held.
    found = nlargest(limit, matching(), key=_place)[::-1]
    left_out = matched - len(found)

    if as_json:
        print_json({"dead_letters": [_as_json(each) for each in found], "left_out": left_out})
        return
    for each in found:
        print(f"{format_time(each.at)}  {each.letter_id}  {_short(each.letter.error)}")
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
    settings = settings_of(context, overrides, config, server)
    (letter,) = _by_id(settings, [letter_id])
    if as_json:
        print_json(_as_json(letter))
        return
    print(letter.letter.error, file=sys.stderr)
    sys.stdout.buffer.write(value_of(letter.letter) + b"\n")


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
    settings = settings_of(context, overrides, config, server)
    if bool(letter_ids) == (since is not None or error is not None):
        raise BadInput("which? give their ids, or --since TIME or --error TEXT for all such")
    if value is not None and len(letter_ids or []) != 1:
        raise BadInput("--value FILE is the record of one dead letter: give its id alone")
    from quota.kafka.dead_letters import check, send

    letters = _by_id(settings, letter_ids) if letter_ids else _matching(settings, since, error)
    pairs = [(letter, value_of(letter.letter) if value is None else _read(value)) for letter in letters]
    check(pairs, settings.policy)
    if not dry_run:
        send(settings, pairs)
    for letter, _ in pairs:
        print(f"{'Would send' if dry_run else 'Sent'} {letter.letter_id} again.")


def _matching(settings: Settings, since: str | None, error: str | None) -> "Iterator[StoredDeadLetter]":
    from quota.kafka.dead_letters import read_dead_letters

    after = 0 if since is None else parse_time("--since", since)
    for each in read_dead_letters(settings):
        if each.at >= after and (error or "") in each.letter.error:
            yield each


def _place(letter: "StoredDeadLetter") -> tuple[int, str, int, int]:
    source = letter.letter.source
    return letter.at, source.topic, source.partition, source.offset


def _by_id(settings: Settings, ids: list[str]) -> "list[StoredDeadLetter]":
    from quota.kafka.dead_letters import read_dead_letters

    found = {each.letter_id: each for each in read_dead_letters(settings) if each.letter_id in ids}
    for each in ids:
        if each not in found:
            raise BadInput(f"{each}: no such dead letter in {settings.topics.dead_letters}; list tells those there are")
    return [found[each] for each in dict.fromkeys(ids)]


def _read(file: Path) -> bytes:
    return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()


def _as_json(letter: "StoredDeadLetter") -> dict[str, Any]:
    found = letter.letter
    return {"id": letter.letter_id, "timestamp": found.timestamp, "error": found.error, "value": found.value}


def _short(text: str) -> str:
    from quota.text import printable

    text = printable(text)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
