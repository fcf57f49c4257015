"""The files of the installation that are not Python (jars, Java, and the configuration), and all versions.

A checkout has its jars in `.jars`; elsewhere, each extra installs a package of jars.
"""

import json
import os
import platform
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

from quota.errors import BadInput
from quota.wire.protocol import Protocol
from schemas import versions

_PROJECT = "kafka-mutation-quota"
_PACKAGE = Path(__file__).resolve().parent
_ROOT = _PACKAGE.parent
_CHECKOUT = (_ROOT / "pyproject.toml").exists()

_NOT_INSTALLED = "not installed"

_JAVA = 17
_JAVA_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)

_WITH_JARS = ("spark", "s3", "broker")
_EXTRA_OF_PACKAGE = dict.fromkeys(
    ("delta", "deltalake", "duckdb", "numpy", "pandas", "py4j", "pyarrow", "pyspark"), "spark"
) | {"cryptography": "certificates"}


def conf_file(name: str) -> Path:
    """Return a file of `conf/`; the wheel contains those that the jobs read."""
    installed = _PACKAGE / "conf" / name
    return installed if installed.exists() else _ROOT / "conf" / name


def java_program() -> Path:
    """Return Java's launcher, of a version that Spark and Kafka support."""
    home, launcher = os.environ.get("JAVA_HOME"), shutil.which("java")
    if not (home or launcher):
        raise BadInput(f"no Java found; install Java {_JAVA} or newer (a JRE is enough), or set JAVA_HOME")
    java = Path(home, "bin", "java") if home else Path(str(launcher))
    with suppress(OSError):  # a Java without this file is not checked
        release = (java.resolve().parent.parent / "release").read_text(encoding="utf-8")
        version = _JAVA_VERSION.search(release)
        if version and int(version[1]) < _JAVA:
            raise BadInput(
                f"{java} is Java {version[1]}, and Java {_JAVA} or newer is needed; install it, or set JAVA_HOME"
            )
    return java


def spark_jars(folder: str, *, s3: bool = False) -> list[Path]:
    """Return the jars that Spark does not contain, in class path order: those in a folder.

    If it is empty, those that are installed; `s3` is whether those for S3 must be.
    """
    folders = [jars_folder(folder, "spark.jars")]
    if not folder:
        with nullcontext() if s3 else suppress(BadInput):
            folders.append(_extra_jars("s3"))
    return [jar for jars in folders for jar in sorted(jars.glob("*.jar"))]


def jars_folder(folder: str, setting: str = "broker.jars") -> Path:
    """Return the folder of jars that a setting names; if it is empty, the installed one."""
    if not folder:
        return _extra_jars(setting.partition(".")[0])
    path = Path(folder).absolute()
    if not any(path.glob("*.jar")):
        raise BadInput(f"no jars in {path}; set {setting} to a folder with jars, or remove it for those installed")
    return path


def _extra_jars(extra: str) -> Path:
    if _CHECKOUT:
        path = _ROOT / ".jars" / extra
        if not any(path.glob("*.jar")):
            raise BadInput(f"no jars in {path}; run make jars{' S3=1' if extra == 's3' else ''}")
        return path
    spec = find_spec(f"{_PROJECT.replace('-', '_')}_{extra}_jars")
    if spec is None or spec.origin is None:
        raise BadInput(f"the jars for {extra} are not installed; {_install(extra)}")
    return Path(spec.origin).parent


def kafka_protocol(folder: str) -> Protocol:
    """Return Kafka's protocol by the jar of Kafka's clients in a folder; if it is empty, that of the project."""
    return Protocol.of_jar(jars_folder(folder)) if folder else Protocol.of_messages()


def check_extras(command: str, *extras: str) -> None:
    """Check that the extras that a command needs are installed, so that one message names them all."""
    missing = [extra for extra in extras if not _is_installed(extra)]
    if missing and not _CHECKOUT:
        raise BadInput(f"{command} needs more than is installed; {_install(*missing)}")


def _is_installed(extra: str) -> bool:
    packages = [f"{_PROJECT.replace('-', '_')}_{extra}_jars"]
    packages += [package for package, its_extra in _EXTRA_OF_PACKAGE.items() if its_extra == extra]
    return all(find_spec(package) for package in packages)


def missing_package(error: Exception) -> BadInput | None:
    """Return what to install if the error is that of a package which an extra installs; None for other errors."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    extra = _EXTRA_OF_PACKAGE.get(package)
    return BadInput(f"this needs {package}, which is not installed; {_install(extra)}") if extra else None


def _install(*extras: str) -> str:
    """Return how to install extras from where this installation is from: its names on an index may be anybody's."""
    if _CHECKOUT:
        return "run make setup"
    source = None
    with suppress(PackageNotFoundError):
        source = distribution(_PROJECT).read_text("direct_url.json")
    wheel = Path(unquote(json.loads(source or "{}").get("url", "").removeprefix("file://")))
    names = ",".join(extras)
    if wheel.suffix != ".whl" or not wheel.exists():
        return f"install it from the files of its release with the extra [{names}]: docs/how-to/install.md"
    project, _, rest = wheel.name.partition("-")
    jars = [wheel.with_name(f"{project}_{extra}_jars-{rest}") for extra in extras if extra in _WITH_JARS]
    return shlex.join(["pip", "install", f"{wheel}[{names}]", *map(str, jars)])


def version_lines() -> Iterator[str]:
    """Yield the versions, one a line, without starting a JVM."""
    tables = {
        "decisions": versions.DECISIONS,
        "dead_letters": versions.DEAD_LETTERS,
        "quota_changes": versions.QUOTA_CHANGES,
    }
    lines = {
        "mutation-quota": _package(_PROJECT),
        "Python": platform.python_version(),
        "Spark": _package("pyspark"),
        "Delta": _package("delta-spark"),
        "Kafka": f"{_gateway()} (gateway), {_jar('broker')} (broker), {_jar('spark')} (Spark's client)",
        "confluent-kafka": _package("confluent-kafka"),
        "state": versions.STATE,
        "tables": ", ".join(f"{name} {version}" for name, version in tables.items()),
    }
    return (f"{name:15} {value}" for name, value in lines.items())


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return _NOT_INSTALLED


def _gateway() -> str:
    try:
        return kafka_protocol("").version
    except BadInput:
        return _NOT_INSTALLED


def _jar(extra: str) -> str:
    """Return the version of Kafka's clients among the jars of an extra, by the name of the jar."""
    try:
        names = [jar.name for jar in jars_folder("", f"{extra}.jars").iterdir()]
    except BadInput:
        return _NOT_INSTALLED
    matches = (re.fullmatch(r"kafka-clients-(\d[\w.]*)\.jar", name) for name in names)
    return next((match[1] for match in matches if match), _NOT_INSTALLED)
