"""Deployments on a shared broker, each with its own topics."""

from jobs.sandbox.broker import with_plaintext_cluster
from quota.kafka.topics.preparation import prepare_topics

LEASE_SECONDS = 60
"""On a busy machine, a job may pause for longer than most of the default lease."""

PARTS = ("requests", "decisions", "dead_letters", "quotas", "results", "positions")


def with_sections(settings, **sections):
    """Return settings with other values of some keys, given by section."""
    changed = {name: getattr(settings, name).model_copy(update=keys) for name, keys in sections.items()}
    return settings.model_copy(update=changed)


def make_deployment(settings, name, folder):
    """Return settings with separate topics, applier group and storage root."""
    topics = {part: f"{name}-{part}" for part in PARTS}
    storage = {"root": str(folder), "lease_seconds": LEASE_SECONDS}
    return with_sections(settings, topics=topics, storage=storage, applier={"group": f"{name}-applier"})


def prepared_deployment(settings, broker, name, folder):
    """Return a deployment on a broker, which is reached without authentication, after its topics are made."""
    made = make_deployment(with_plaintext_cluster(settings, broker.address), name, folder)
    prepare_topics(made)
    return made


def set_options(*given):
    """Return the options of a command that set keys, each given as `section.key=value`."""
    return [option for setting in given for option in ("--set", setting)]


def as_options(settings, *given):
    """Return the options that point a command at a deployment, without the storage root, and that set other keys."""
    named = [f"topics.{part}={getattr(settings.topics, part)}" for part in PARTS]
    named.append(f"storage.lease_seconds={settings.storage.lease_seconds}")
    named += [f"kafka.bootstrap_servers={settings.kafka.bootstrap_servers}", f"applier.group={settings.applier.group}"]
    return set_options(*named, *given)


def undisturbed_of(settings):
    """Return a deployment with the same requests and quotas, and its own answer topics and storage root."""
    alone = make_deployment(settings, f"{settings.topics.requests}-undisturbed", f"{settings.storage.root}-undisturbed")
    return with_sections(alone, topics={"requests": settings.topics.requests, "quotas": settings.topics.quotas})
