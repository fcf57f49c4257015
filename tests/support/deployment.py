"""Deployments of tests: topics of their own on a broker that they share."""

PARTS = ("requests", "decisions", "dead_letters", "quotas", "results", "places")


def deployed(settings, name, folder):
    """Settings of a deployment with topics, an applier and a folder of its own."""
    return settings.model_copy(
        update={
            "topics": settings.topics.model_copy(update={part: f"{name}-{part}" for part in PARTS}),
            "storage": settings.storage.model_copy(update={"root": str(folder)}),
            "apply": settings.apply.model_copy(update={"group": f"{name}-applier"}),
        }
    )


def as_options(settings):
    """What tells a command of such a deployment."""
    named = [f"topics.{part}={getattr(settings.topics, part)}" for part in PARTS]
    named += [f"kafka.bootstrap_servers={settings.kafka.bootstrap_servers}", f"apply.group={settings.apply.group}"]
    return [option for each in named for option in ("--set", each)]
