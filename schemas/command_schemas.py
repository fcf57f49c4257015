"""JSON Schemas of the documents that commands print, generated from the structs of `schemas.documents`.

`python -m schemas.json_schemas` writes them, too, to `schemas/json/output`.
"""

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import inspect

from quota.explanation.explanation import Explanation
from quota.whatif.advice import Advice
from quota.whatif.result import Result
from schemas.documents import (
    buckets,
    cluster,
    dead_letters,
    decisions,
    described_topics,
    maintenance,
    observation,
    quota_diff,
    quotas,
    report,
    settings,
    status,
    topics,
)

DOCUMENTS: Mapping[str, type[msgspec.Struct]] = {
    "backtest": Result,
    "buckets-export": buckets.ExportedBuckets,
    "buckets-list": buckets.Buckets,
    "buckets-reset": buckets.BucketReset,
    "callback-alter": cluster.CallbackChange,
    "callback-cancel": quotas.CancelledChange,
    "callback-describe": cluster.Callback,
    "callback-publish-metadata": cluster.PublishedCluster,
    "config-show": settings.SettingsInForce,
    "config-validate": settings.ValidatedSettings,
    "dead-letters-list": dead_letters.DeadLetters,
    "dead-letters-resend": dead_letters.ResentDeadLetters,
    "dead-letters-show": dead_letters.DeadLetters,
    "decisions-list": decisions.Decisions,
    "explain": Explanation,
    "maintain": maintenance.Maintenance,
    "observe-compare": observation.ComparedCluster,
    "observe-import": observation.LogSummary,
    "observe-snapshot": observation.WrittenSnapshot,
    "quotas-alter": quotas.QuotaChanges,
    "quotas-apply": quotas.QuotaChanges,
    "quotas-cancel": quotas.CancelledChange,
    "quotas-describe": quotas.Quotas,
    "quotas-diff": quota_diff.QuotaDiff,
    "quotas-drift": quotas.QuotaDrift,
    "quotas-export": quotas.ExportedQuotas,
    "quotas-history": quotas.QuotaHistory,
    "quotas-pull": quotas.PulledQuotas,
    "quotas-push": quotas.PushedQuotas,
    "quotas-resolve": quotas.ResolvedQuota,
    "quotas-rollback": quotas.QuotaChanges,
    "quotas-validate": quotas.ValidatedQuotas,
    "recommend": Advice,
    "report": report.WrittenReport,
    "simulate": decisions.SimulatedDecisions,
    "status": status.Status,
    "topics-alter": topics.TopicChanges,
    "topics-create": topics.TopicChanges,
    "topics-delete": topics.TopicChanges,
    "topics-describe": described_topics.DescribedTopics,
    "topics-list": described_topics.Topics,
    "user-topics-prepare": cluster.UserTopics,
}
"""The document of each command that prints data, by the command's words."""

ITEMS: Mapping[str, tuple[str, ...]] = {
    "backtest": ("outcomes",),
    "buckets-list": ("buckets",),
    "config-show": ("settings",),
    "dead-letters-list": ("dead_letters",),
    "dead-letters-resend": ("dead_letters",),
    "dead-letters-show": ("dead_letters",),
    "decisions-list": ("decisions",),
    "maintain": ("tables",),
    "observe-compare": ("differences",),
    "quotas-alter": ("changes",),
    "quotas-apply": ("changes",),
    "quotas-describe": ("quotas",),
    "quotas-diff": ("differences",),
    "quotas-drift": ("differences",),
    "quotas-history": ("changes",),
    "quotas-pull": ("changes",),
    "quotas-push": ("changes",),
    "quotas-rollback": ("changes",),
    "recommend": ("tenants",),
    "simulate": ("decisions", "dead_letters"),
    "topics-alter": ("topics",),
    "topics-create": ("topics",),
    "topics-delete": ("topics",),
    "topics-describe": ("topics",),
    "topics-list": ("topics",),
    "user-topics-prepare": ("topics",),
}
"""The lists of a document of which `--output jsonl` prints an element per line; other documents are one line."""


def structs_in(*documents: type[msgspec.Struct]) -> dict[str, type[msgspec.Struct]]:
    """Return documents and all structs in them, by their names."""
    return {each.__name__: each for info in inspect.multi_type_info(documents) for each in _structs(info)}


def _structs(info: inspect.Type) -> Iterator[type[msgspec.Struct]]:
    match info:
        case inspect.StructType(cls=cls, fields=fields):
            yield cls
            for field in fields:
                yield from _structs(field.type)
        case inspect.UnionType(types=types):
            for each in types:
                yield from _structs(each)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            yield from _structs(item)
        case inspect.DictType(value_type=value):
            yield from _structs(value)
        case _:
            pass
