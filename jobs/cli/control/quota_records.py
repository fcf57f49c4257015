"""What commands do before they write to the quota topic."""

from jobs.cli.options import operator, text_of
from quota.records.quota_log import QuotaRecord
from quota.settings.loading import Settings
from quota.timeline.plan import signed


def signed_record(
    settings: Settings, effective_at: int | None, comment: str | None, record: QuotaRecord
) -> QuotaRecord:
    """A record with who writes it and why; it holds from `effective_at` on (epoch ms), or at once."""
    return signed(record, effective_at, operator(settings), text_of("comment", comment))


def prepare_quotas(settings: Settings) -> None:
    """See that the topic is there, and as it has to be.

    Raises:
        MutationQuotaError: it is not, or cannot be reached.
    """
    from quota.kafka.topics.specs import prepare_topics

    prepare_topics(settings, [settings.topics.quotas])
