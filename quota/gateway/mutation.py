"""The mutations of one client's request, from its arrival to its answer.

The cluster validates them first, so that what would fail anyway is answered with the cluster's own error and is not
charged. The others are decided, and only what was admitted goes on, in the client's own version.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal

from quota.gateway.api_keys import OPERATIONS, ErrorCode
from quota.gateway.operations import OPERATION_TYPES, Answer, Call, Checked, ClientRequest, MutationAnswer
from quota.records.decision import Decision
from quota.records.request import NO_CLIENT_ID, MutationRequest, TopicMutation

WhenSilent = Literal["closed", "open", "again"]
"""What happens without a decision: an error, going on without it, or error 89 so that the client tries again."""

_SHARE_OF_TIMEOUT = 0.8
"""The part of a client's own time limit that a decision may take, so that the answer comes in time."""
_MIN_WAIT_MS = 100
_TRY_AGAIN_MS = 1000


@dataclass(frozen=True, slots=True)
class Ask:
    """Mutations to be decided."""

    request: MutationRequest
    """The request without its `request_id` and `expires_at`."""
    once: bool
    content: bytes
    """See `operations.Checked`."""
    timeout_ms: int
    """The time that the decision may take [ms]."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on what was asked, or why there is none."""

    decision: Decision | None
    waited_ms: int
    """The time since it was asked [ms]."""
    invalid: str = ""
    """The reason of the dead letter, if the request became one."""


Steps = Generator[Call | Ask, Any, MutationAnswer]
"""What to do next: a `Call` is answered with its message, an `Ask` with a `Verdict`; at last the client's answer."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for all clients' mutations."""

    when_silent: WhenSilent = "closed"
    decision_timeout_ms: int = 10_000
    """The time that a decision may take [ms], if the client's own time limit is not shorter."""
    default_partitions: int = 1
    """The cost of a topic with the cluster's default number of partitions where the client may not see that number."""
    enforced_by: str = "the cluster"
    """The servers on which the enforcing job should run, for errors."""


def mutate(request: ClientRequest, rules: Rules) -> Steps:
    """Carry out the mutations of a request as far as they are admitted.

    Args:
        request: a request to create, grow or delete topics, not just to validate that, with at least one topic.
        rules: what holds for all clients.
    """
    operation = OPERATION_TYPES[request.key](request, rules.default_partitions)
    checked = yield from operation.check()
    admitted, refused, undecided, throttle_ms, waited_ms = frozenset[int](), list[Answer](), False, 0, 0
    if checked.topics:
        verdict = yield _ask(request, checked, rules)
        waited_ms = verdict.waited_ms
        admitted, error, message, throttle_ms = _outcome(verdict, checked.topics, request, rules)
        undecided = verdict.decision is None and not verdict.invalid
        refused = [operation.refuse(i, error, message) for i in range(len(checked.topics)) if i not in admitted]
    forwarded = operation.forward(admitted, waited_ms)
    if forwarded is not None:
        answer = yield Call(request.key, request.version, forwarded)
        throttle_ms = max(throttle_ms, answer["throttleTimeMs"])
        results = answer[operation.results]
    else:
        results = []
    return MutationAnswer(
        {
            "throttleTimeMs": max(throttle_ms, checked.throttle_ms),
            operation.results: [*results, *checked.failed, *refused],
        },
        mute_ms=throttle_ms,
        admitted=len(admitted),
        refused=0 if undecided else len(refused),
        failed=len(checked.failed),
        undecided=len(refused) if undecided else 0,
    )


def _ask(request: ClientRequest, checked: Checked, rules: Rules) -> Ask:
    timeout_ms = request.message["timeoutMs"]
    asked = MutationRequest(
        request_id="",
        operation=OPERATIONS[request.key],
        api_version=request.version,
        topics=checked.topics,
        user=request.user,
        client_id=request.client_id or NO_CLIENT_ID,
        apply=False,
    )
    limit = min(rules.decision_timeout_ms, int(timeout_ms * _SHARE_OF_TIMEOUT))
    return Ask(asked, checked.once, checked.content, max(limit, _MIN_WAIT_MS))


def _outcome(
    verdict: Verdict, topics: list[TopicMutation], request: ClientRequest, rules: Rules
) -> tuple[frozenset[int], int, str | None, int]:
    """Return the indexes of the admitted topics, error and message of the others, and the throttle time [ms]."""
    everything = frozenset(range(len(topics)))
    if verdict.decision is not None:
        decided = enumerate(verdict.decision.topics)
        admitted = frozenset(index for index, topic in decided if not topic.error_code)
        return admitted, ErrorCode.THROTTLING_QUOTA_EXCEEDED, None, verdict.decision.throttle_time_ms
    if verdict.invalid:
        return frozenset(), ErrorCode.INVALID_REQUEST, verdict.invalid, 0
    if rules.when_silent == "open":
        return everything, ErrorCode.NONE, None, 0
    if rules.when_silent == "again" and request.is_strict:
        return frozenset(), ErrorCode.THROTTLING_QUOTA_EXCEEDED, None, _TRY_AGAIN_MS
    sentence = (
        f"no decision on this mutation in {verdict.waited_ms} ms, so it was not begun; "
        f"is mutation-quota enforce running on {rules.enforced_by}?"
    )
    return frozenset(), ErrorCode.REQUEST_TIMED_OUT, sentence, 0
