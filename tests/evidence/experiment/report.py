"""The tables of the experiment."""

from collections.abc import Sequence

from tests.evidence.experiment.figures import REST_SECONDS, Arm, Phase, Summary, between, done, summary
from tests.evidence.pages import NOTHING, Table, milliseconds


def tenant_tables(arms: Sequence[Arm]) -> tuple[Table, Table]:
    """Return the times until a tenant's creates were answered, and until they were usable; a row for each arm."""
    cases = [
        ((phase, tenant, arm.name), waits(arm, tenant, phase))
        for phase in ("before", "creation", "deletion")
        for tenant in arms[0].creates
        for arm in arms
    ]
    answered, usable = (
        Table(
            f"from a tenant's create until {until}, ms",
            ("phase", "tenant", "storm", "creates", "p50", "p99", "max"),
            tuple((*words, _count(times[number]), *_cells(times[number])) for words, times in cases),
            words=3,
        )
        for number, until in enumerate(("it was answered", "its topic was usable"))
    )
    return answered, usable


def waits(arm: Arm, tenant: str, phase: str) -> tuple[Summary, Summary]:
    """Return the times of a tenant's creates in a phase, until they were answered and until the topic was usable."""
    begun, ended = {
        "before": (float("-inf"), arm.creation.begun - REST_SECONDS),
        "creation": (arm.creation.begun, arm.creation.ended),
        "deletion": (arm.deletion.begun, arm.deletion.ended),
    }[phase]
    creates = between(arm.creates[tenant], begun, ended)
    return summary(each.seconds_to_answer for each in creates), summary(each.seconds_to_use for each in creates)


def storm_table(arms: Sequence[Arm]) -> Table:
    """Return the outcome of the storm, with a column for each arm."""
    rows = [
        (f"{name}: {what}", *(measure(getattr(arm, name)) for arm in arms))
        for name in ("creation", "deletion")
        for what, measure in _OF_A_PHASE
    ]
    return Table("the storm", ("", *(arm.name for arm in arms)), tuple(rows), words=1)


def _spread(phase: Phase) -> str:
    return f"{phase.answered - phase.begun:.1f}"


def _caught_up(phase: Phase) -> str:
    return NOTHING if phase.caught_up is None else f"{phase.caught_up - phase.answered:.1f}"


_OF_A_PHASE = (
    ("topics requested", lambda phase: f"{len(phase.settled):,}"),
    ("done", lambda phase: f"{len(done(phase.settled)):,}"),
    ("refused at the time limit", lambda phase: f"{sum(each.refused for each in phase.settled):,}"),
    (
        "failed otherwise",
        lambda phase: f"{sum(each.error is not None and not each.refused for each in phase.settled):,}",
    ),
    ("first request to last answer, s", _spread),
    ("last answer until caught up, s", _caught_up),
)


def _count(times: Summary) -> str:
    return f"{times.count} ({times.failed} failed)" if times.failed else str(times.count)


def _cells(times: Summary) -> tuple[str, str, str]:
    return milliseconds(times.p50), milliseconds(times.p99), milliseconds(times.largest)
