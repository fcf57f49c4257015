"""The ACLs of each principal, as the document has them."""

import shlex

from tests.support.checkout import CHECKOUT

DOCUMENT = CHECKOUT / "docs/security.md"
OPERATIONS = {each.title(): each for each in ("READ", "WRITE", "CREATE", "ALTER", "DELETE", "DESCRIBE")}
OPERATIONS["DescribeConfigs"] = "DESCRIBE_CONFIGS"


def documented_acls():
    """The ACLs of each principal, from the commands that the document gives."""
    found = {}
    for line in DOCUMENT.read_text().splitlines():
        if line.startswith("acls "):
            words = shlex.split(line)[1:]
            options = list(zip(words[::2], words[1::2], strict=True))
            given = {name.removeprefix("--"): value for name, value in options}
            (kind,) = {"topic", "group", "transactional-id"} & given.keys()
            pattern = given.get("resource-pattern-type", "literal").upper()
            where = (kind.replace("-", "_").upper(), given[kind], pattern)
            operations = [OPERATIONS[value] for name, value in options if name == "--operation"]
            principal = given["allow-principal"].removeprefix("User:")
            found.setdefault(principal, []).extend((*where, operation) for operation in operations)
    return found
