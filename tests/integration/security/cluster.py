"""A broker whose authorizer lets each principal do what it has to and no more, and how each of them reaches it."""

from contextlib import contextmanager

from quota.kafka.topics.preparation import prepare_topics
from quota.settings import load_settings
from tests.support.broker import ADMIN, ADMIN_PASSWORD, secure_broker
from tests.support.deployment import set_options

PASSWORD = "pä\"ss\\word;{$}='1 xyzzy"  # noqa: S105
"""With all that a quoting could stumble over."""


class Cluster:
    """The broker, and how each principal reaches it."""

    def __init__(self, secure, folder, how):
        """Take the function that runs a command."""
        self.secure = secure
        self.folder = folder
        self.password_file = folder / "password"
        self.password_file.write_text(f"{PASSWORD}\n")
        self._how = how

    def options(self, user, **more):
        """Settings of a user with a password."""
        return [*self.secure.options(user, self.password_file, **more), f"storage.root={self.folder}/root"]

    def settings(self, user, **more):
        return load_settings(self.options(user, **more), environment={}, with_default_file=False)

    def command(self, user, *args, **more):
        """Run a command as a user; what it did."""
        return self._how(*set_options(*self.options(user, **more)), *args, cwd=self.folder)


@contextmanager
def secured_cluster(folder, jars, acls, how):
    """Run the broker inside the block, with the topics and the users of some ACLs."""
    with secure_broker(folder, jars) as secure:
        for user, allowed in acls.items():
            secure.add_user(user, PASSWORD)
            secure.allow(user, allowed)
        cluster = Cluster(secure, folder, how)
        prepare_topics(cluster.settings(ADMIN, sasl_mechanism="PLAIN", sasl_password=ADMIN_PASSWORD))
        yield cluster
