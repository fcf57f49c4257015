"""Functions that are written as Python source and compiled, one for each message and version."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class FunctionSource:
    """Lines of a function, with names that are used once, and the values that it refers to."""

    def __init__(self, signature: str, values: dict[str, Any]) -> None:
        """Begin a function `run` with a signature such as `(data, at)`, which may refer to values by name."""
        self._lines = [f"def run{signature}:"]
        self._indent = " "
        self._values = dict(values)
        self._numbers = itertools.count()

    def name(self) -> str:
        """Return a new name of a variable."""
        return f"v{next(self._numbers)}"

    def value(self, value: object) -> str:
        """Return a new name for a value."""
        name = f"c{next(self._numbers)}"
        self._values[name] = value
        return name

    def add(self, *lines: str) -> None:
        """Append lines at the current indent."""
        self._lines += [self._indent + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Append a line such as `if x:`, and indent the lines that are added in the `with` block."""
        self.add(head)
        outer, self._indent = self._indent, self._indent + " "
        yield
        self._indent = outer

    def function(self, title: str) -> Callable[..., Any]:
        """Compile the function; `title` is shown as its file name in a traceback."""
        code = compile("\n".join(self._lines), f"<{title}>", "exec")
        namespace = dict(self._values)
        exec(code, namespace)  # noqa: S102 the source has names and numbers of Kafka's schemas, quoted, and no input
        run: Callable[..., Any] = namespace["run"]
        return run
