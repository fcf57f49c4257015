"""What all answers so far come to: for the metrics, and for the live view."""

from collections import Counter

from jobs.metrics.counts import Asked
from jobs.metrics.latencies import Latencies
from jobs.metrics.standings import Standings
from quota.algorithms.bucket import Window
from quota.records.decision import DeadLetter, Decision, Outcome
from quota.records.result import MutationResult


class Account:
    """Adds up decisions and dead letters as they come. Copies of a decision, which a crash may leave, count again."""

    def __init__(self, window: Window, most_tenants: int) -> None:
        self.tenants = Standings(window, most_tenants)
        self.latencies = Latencies()
        self.decisions: Counter[Outcome] = Counter()
        self.topics_admitted = 0
        self.topics_refused = 0
        self.mutations_admitted = 0
        self.mutations_refused = 0
        self.shadow_refused = 0
        self.repeats = 0
        self.dead_letters = 0

    def hear(self, answer: Decision | DeadLetter | MutationResult, at: int) -> None:
        """Take note of an answer that reached its topic at a moment (epoch ms); results do not count."""
        if isinstance(answer, DeadLetter):
            self.dead_letters += 1
        if not isinstance(answer, Decision):
            return
        asked = Asked.of(answer)
        self.tenants.hear(answer, asked)
        self.latencies.add(at - answer.timestamp)
        self.decisions[answer.outcome] += 1
        self.topics_admitted += asked.topics_admitted
        self.topics_refused += asked.topics_refused
        self.mutations_admitted += asked.mutations_admitted
        self.mutations_refused += asked.mutations_refused
        self.shadow_refused += asked.shadow_refused
        self.repeats += answer.repeats is not None
