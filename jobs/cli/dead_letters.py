"""`mutation-quota dead-letters`: lists, shows and resends invalid records of the request topic."""

import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from jobs.cli.options import ConfirmOptions, KafkaOptions, PeriodOptions
from jobs.cli.output import OutputOptions, print_text, stdout_bytes
from jobs.cli.tables import Columns, print_rows, sender
from jobs.storage.whole_file import read_whole
from quota.admission.identity import user_of
from quota.admission.policy import Policy
from quota.errors import BadInput, NotFound
from quota.records.record import Source
from quota.settings import Settings
from quota.text import plural, printable
from schemas.documents.records import DeadLetters, ListedDeadLetter, ResentDeadLetters

if TYPE_CHECKING:
    from quota.kafka.dead_letters import StoredDeadLetter
    from quota.records.request import MutationRequest

_COLUMNS: Columns = {
    "RECEIVED": "timestamp",
    "ID": "id",
    "USER / CLIENT-ID": sender,
    "ERROR": lambda letter: _shortened(letter.error),
}

_MAX_ERROR_CHARACTERS = 100

LetterId = Annotated[
    str, typer.Argument(metavar="ID", help="Id of the dead letter, as list prints it: topic-partition-offset.")
]
Containing = Annotated[
    str | None, typer.Option("--error", metavar="TEXT", help="Only dead letters whose error contains this text.")
]


def list_letters(
    period: PeriodOptions,
    error: Containing = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Print at most the N newest.")] = 1000,
    *,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """List invalid requests.

    Shows the sender that each names, and why it is invalid. Reads the dead-letter topic, as far back as its retention;
    the Delta table dead_letters retains them for audit.keep_days.

    Examples:
      mutation-quota dead-letters list --from -1h
      mutation-quota dead-letters list --error operation: -o json
    """
    span = period.parse()
    settings = kafka.read()
    matched = 0

    def counted() -> "Generator[StoredDeadLetter, None, None]":
        nonlocal matched
        for letter in _read_matching(settings, span, error):
            matched += 1
            yield letter

    # Only the letters that are printed are held in memory.
    latest = nlargest(limit, counted(), key=_position)[::-1]
    left_out = matched - len(latest)
    items = [_to_item(stored, settings) for stored in latest]

    def table() -> None:
        print_rows(items, _COLUMNS, optional=("RECEIVED", "USER / CLIENT-ID"))

    selected = period != PeriodOptions() or error is not None
    none = "no such dead letters" if selected else "no dead letters"
    output.print_found(DeadLetters(items, left_out), table, items="dead_letters", none=none, selected=selected)
    if left_out:
        print(f"and {plural(left_out, 'earlier dead letter')} (--limit)", file=sys.stderr)


def describe(letter_id: LetterId, *, output: OutputOptions, kafka: KafkaOptions) -> None:
    """Show an invalid request and why it is invalid.

    Prints the record to standard output as it was received, so that it can be corrected in a file, and its error to
    standard error. A terminal shows control characters escaped.

    Examples:
      mutation-quota dead-letters describe mutation-requests-0-17
      mutation-quota dead-letters describe mutation-requests-0-17 -o yaml
    """
    Source.parse(letter_id, "dead letter")
    settings = kafka.read()
    (stored,) = _read_by_id(settings, [letter_id])
    item = _to_item(stored, settings)

    def record() -> None:
        print_text(item.error, file=sys.stderr)
        stdout_bytes().write(stored.letter.original_value + b"\n")

    output.print(DeadLetters([item], 0), record, items="dead_letters")


def resend(
    letter_ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Ids of dead letters, as list prints them.")
    ] = None,
    value: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Corrected record, for a single dead letter; - for standard input."),
    ] = None,
    *,
    period: PeriodOptions,
    error: Containing = None,
    confirmation: ConfirmOptions,
    output: OutputOptions,
    kafka: KafkaOptions,
) -> None:
    """Resend requests after the cause is removed.

    Sends a corrected record, or the unchanged records if they were not the cause (a callback failed, for example).
    Name them by their ids, or select them with --from, --to and --error. They are decided at the current time. If one
    of them is still invalid, none is sent. Asks for confirmation unless a single id is named.

    Examples:
      mutation-quota dead-letters resend mutation-requests-0-17 --value fixed.json
      mutation-quota dead-letters resend --from -1h --error callback --dry-run
    """
    ids = letter_ids or []
    for letter_id in ids:
        Source.parse(letter_id, "dead letter")
    if bool(ids) == (period != PeriodOptions() or error is not None):
        raise BadInput("which dead letters? give their ids, or select them with --from TIME, --to TIME or --error TEXT")
    if value is not None and len(ids) != 1:
        raise BadInput("--value FILE replaces the record of one dead letter: give exactly one id")
    span = period.parse()
    corrected = None if value is None else read_whole(value)
    if len(ids) != 1:
        confirmation.check(output)
    settings = kafka.read()
    from quota.kafka.dead_letters import send, valid_requests

    selected = _read_by_id(settings, ids) if ids else _read_matching(settings, span, error)
    letters = [(stored, stored.letter.original_value if corrected is None else corrected) for stored in selected]
    requests = valid_requests(letters, Policy.of(settings))
    if letters and not confirmation.dry_run:
        if len(ids) != 1:
            confirmation.confirm(_question(requests))
        send(settings, letters)

    def lines() -> None:
        for stored, _ in letters:
            print(f"{'Would resend' if confirmation.dry_run else 'Resent'} {stored.letter_id}.")

    document = ResentDeadLetters([stored.letter_id for stored, _ in letters], not confirmation.dry_run)
    output.print_found(document, lines, items="dead_letters", none="no such dead letters", selected=True)


def _question(requests: "Sequence[MutationRequest]") -> str:
    counts = Counter(request.operation.value for request in requests)
    operations = ", ".join(f"{count:,} {operation}" for operation, count in sorted(counts.items()))
    return f"Resend {plural(len(requests), 'request')} ({operations})? An applier carries out those that are admitted."


def _read_matching(
    settings: Settings, period: tuple[int | None, int | None], error: str | None
) -> "Generator[StoredDeadLetter, None, None]":
    from quota.kafka.dead_letters import read_dead_letters

    start, end = period
    for dead_letter in read_dead_letters(settings, start):
        is_in_period = dead_letter.at >= (start or 0) and (end is None or dead_letter.at < end)
        if is_in_period and (error or "") in dead_letter.letter.error:
            yield dead_letter


def _position(stored: "StoredDeadLetter") -> tuple[int, str, int, int]:
    source = stored.letter.source
    return stored.at, source.topic, source.partition, source.offset


def _read_by_id(settings: Settings, ids: list[str]) -> "list[StoredDeadLetter]":
    from quota.kafka.dead_letters import read_dead_letters

    letters, missing = {}, {*ids}
    with closing(read_dead_letters(settings)) as found:
        while missing and (dead_letter := next(found, None)):
            if dead_letter.letter_id in missing:
                missing.remove(dead_letter.letter_id)
                letters[dead_letter.letter_id] = dead_letter
    for letter_id in ids:
        if letter_id not in letters:
            raise NotFound(f"{letter_id}: no such dead letter in {settings.topics.dead_letters}; see dead-letters list")
    return [letters[letter_id] for letter_id in dict.fromkeys(ids)]


def _to_item(stored: "StoredDeadLetter", settings: Settings) -> ListedDeadLetter:
    letter = stored.letter
    fields = _fields(letter.original_value)
    user, client_id = (name if isinstance(name := fields.get(field), str) else None for field in ("user", "client_id"))
    prefix = Policy.of(settings).user_topic_prefix
    owner = None if prefix is None else user_of(letter.source.topic, prefix)
    sender = owner or user or None, client_id or None
    return ListedDeadLetter(stored.letter_id, letter.timestamp, *sender, letter.error, letter.value)


def _fields(value: bytes) -> dict[str, Any]:
    """Return the fields of a record that is a JSON object."""
    try:
        fields = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _shortened(error: str) -> str:
    text = printable(error)
    return text if len(text) <= _MAX_ERROR_CHARACTERS else f"{text[: _MAX_ERROR_CHARACTERS - 3]}..."
