"""The processes that a command has started, found by a mark in their environment, which they inherit."""

import itertools
import os
import re
from contextlib import suppress
from pathlib import Path

_NUMBERS = itertools.count()
_TEMPORARY = re.compile(rb"-Djava\.io\.tmpdir=([^\0]+)")


class Mark:
    """The mark of one command, which is started with `variable` in its environment."""

    def __init__(self):
        self.variable = {"MARK_OF_TEST": f"{os.getpid()}-{next(_NUMBERS)}"}

    def commands(self):
        """Return the command lines of its processes that are alive."""
        ((name, value),) = self.variable.items()
        commands = []
        for process in Path("/proc").iterdir():
            with suppress(OSError):
                if f"{name}={value}".encode() in (process / "environ").read_bytes().split(b"\0"):
                    commands.append((process / "cmdline").read_bytes())
        return commands

    def temporary_folders(self):
        """Return the temporary folders of its JVMs that are alive."""
        return {match[1].decode() for command in self.commands() if (match := _TEMPORARY.search(command))}
