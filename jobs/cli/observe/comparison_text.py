"""Prints a comparison with a cluster's own responses as text."""

from collections.abc import Iterator, Sequence

from jobs.cli.output import print_table, print_text
from quota.text import format_seconds, format_time, plural, printable
from quota.whatif.comparison import Comparison, Disagreement
from quota.whatif.kafka_bucket import KafkaDifference
from schemas.documents.observation import ComparedCluster


def compared(found: Comparison) -> ComparedCluster:
    """Return the comparison as data."""
    return ComparedCluster(
        requests=found.requests,
        limited=found.limited,
        agreeing=found.agreeing,
        refused_by_both=found.refused_by_both,
        differing=found.differing,
        unexplained=found.unexplained,
        causes=dict(found.causes.most_common()),
        differences=list(found.shown),
    )


def print_comparison(found: Comparison, limit: int) -> None:
    """Print how many requests had the same result, and the others by cause, with examples."""
    print(
        f"Of {plural(found.requests, 'observed request')}, {found.limited:,} had a quota: {found.agreeing:,} got "
        f"the same answer ({found.refused_by_both:,} of these refused), {found.differing:,} a different one."
    )
    if not found.limited:
        print_text("None of the quotas applies to their users and client-ids: are these the brokers' own quotas?")
    if not found.differing:
        return
    print()
    causes = ((_described(cause), f"{count:,}") for cause, count in found.causes.most_common())
    print_table(("CAUSE", "REQUESTS"), causes, numbers=("REQUESTS",))
    if limit:
        print()
        print_table(("RECEIVED", "USER / CLIENT-ID", "REQUEST", "CLUSTER", "HERE", "CAUSE"), _rows(found.shown[:limit]))
    if found.differing > limit:
        print(f"and {found.differing - limit:,} more; --limit N prints more of them, -o json up to 1,000")
    print("docs/explanation/differences-from-kafka.md explains what Kafka does differently, and why.")


def _described(cause: str) -> str:
    is_rule = cause in {each.value for each in KafkaDifference}
    return f"{cause.replace('`', '')} (differences-from-kafka.md)" if is_rule else cause


def _rows(differences: Sequence[Disagreement]) -> Iterator[Sequence[str]]:
    for each in differences:
        topics = plural(len(each.topics), "topic") if len(each.topics) > 1 else printable(each.topics[0])
        yield (
            format_time(each.at),
            f"{each.user} / {each.client_id}",
            f"{each.operation} {topics}, {plural(sum(each.partitions), 'partition')}",
            _answer(each.cluster_error_codes, each.cluster_throttle_ms),
            _answer(each.our_error_codes, each.our_throttle_ms),
            ", ".join(each.causes).replace("`", ""),
        )


def _answer(codes: Sequence[int], throttle_ms: int) -> str:
    refused = sum(map(bool, codes))
    wait = f", {format_seconds(throttle_ms)}" if throttle_ms else ""
    return f"{refused} of {len(codes)} refused{wait}" if refused else f"admitted{wait}"
