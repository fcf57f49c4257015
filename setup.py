"""Adds Kafka's message schemas to the wheel and the sdist, from the jar of Kafka's clients in a checkout."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

_ROOT = Path(__file__).resolve().parent
_JARS = _ROOT / ".jars" / "broker"
sys.path.insert(0, str(_ROOT))

from quota.wire.schemas import MESSAGES, write_messages  # noqa: E402


def _add_messages(folder: str) -> None:
    """Write the file into a folder, unless the source is an sdist, which has it."""
    if not MESSAGES.exists():
        write_messages(_JARS, Path(folder, MESSAGES.relative_to(_ROOT)))


class _Modules(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            _add_messages(self.build_lib)


class _Source(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        _add_messages(base_dir)


setup(cmdclass={"build_py": _Modules, "sdist": _Source})
