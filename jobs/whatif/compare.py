"""`observe compare`: compares a cluster's responses to observed requests with our decisions."""

import logging
from pathlib import Path

from jobs.audit.decisions import AuditedDecisions
from jobs.audit.quota_changes import read_quota_log
from jobs.audit.tables.reader import read_errors
from jobs.whatif.quotas import read_quotas_of_file
from jobs.whatif.simulate import open_lines
from quota.algorithms.token_bucket import TokenBucket
from quota.callbacks.loading import check_callbacks
from quota.callbacks.timeline import CallbackTimeline
from quota.errors import BadInput
from quota.records import codec
from quota.records.fields import MAX_EPOCH_MS
from quota.records.record import Record, Source
from quota.settings import Settings
from quota.timeline.change import to_change
from quota.whatif.comparison import Comparer, Comparison
from quota.whatif.recorded import restore_request
from quota.whatif.simulation import read_timestamp

_log = logging.getLogger(__name__)


def compare_file(settings: Settings, requests: str, quotas: Path) -> Comparison:
    """Compare the requests of a file from `observe import`, decided with these quotas.

    Raises:
        BadInput: a file cannot be read, or no line is an observed request.
    """
    check_callbacks(settings.quota.callbacks)
    comparer = _comparer(settings, read_quotas_of_file(quotas, settings.quota.callbacks))
    first_error, invalid = None, 0
    with open_lines(requests) as lines:
        for number, line in enumerate(lines):
            value = line.rstrip(b"\r\n")
            timestamp, error = read_timestamp(value)
            letter = comparer.compare(Record(Source(settings.topics.requests, 0, number), timestamp or 0, value))
            if letter is not None or error is not None:
                invalid += 1
                first_error = first_error or f"line {number + 1}: {error or (letter and letter.error)}"
    if not comparer.found.requests:
        reason = f"; {first_error}" if first_error else ""
        raise BadInput(f"{requests}: no line is a request of mutation-quota observe import{reason}")
    if invalid:
        _log.warning("%s: ignored %d lines that are not requests; %s", requests, invalid, first_error)
    return comparer.found


def compare_tables(settings: Settings) -> Comparison:
    """Compare the observed requests in the audit's tables, decided with the quotas that were in force.

    Raises:
        BadInput: no request was observed.
        MutationQuotaError: the tables cannot be read.
    """
    check_callbacks(settings.quota.callbacks)
    quotas = CallbackTimeline(settings.quota.callbacks)
    with read_errors(settings):
        for entry in read_quota_log(settings, MAX_EPOCH_MS, with_clusters=True):
            quotas.add(to_change(entry.record, entry.timestamp))
        comparer = _comparer(settings, quotas)
        for decision in AuditedDecisions(settings).observed():
            request = restore_request(decision)
            comparer.compare(Record(decision.source, decision.timestamp, codec.encode(request)))
    if not comparer.found.requests:
        raise BadInput(
            "the tables have no observed requests: run mutation-quota observe follow, enforce and audit, or name a "
            "file of mutation-quota observe import"
        )
    return comparer.found


def _comparer(settings: Settings, quotas: CallbackTimeline) -> Comparer:
    return Comparer(quotas, settings.policy, TokenBucket(settings.quota.window))
