"""The list of what a release installs, as CycloneDX: Python packages of all extras, and jars."""

import hashlib
import json
import re
import uuid
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from email.parser import BytesParser
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from conf.release.jar_wheels import EXTRAS
from conf.release.packing import required_distributions

_COORDINATES = re.compile(r"(\S+?):(\S+?):jar:")
_ITEM = re.compile(r"<groupId>([^<]+)</groupId>\s*<artifactId>([^<]+)</artifactId>")


def write_sbom(file: Path, wheel: Path, jars: Path, epoch: int) -> None:
    """Write the list for a wheel and for the jars in the folders of `jars`, as of a time [s since the epoch]."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [member for member in archive.namelist() if member.endswith(".dist-info/METADATA")]
        project = BytesParser().parsebytes(archive.read(name))
    packages = [*required_distributions(project), distribution("pyspark"), distribution("py4j")]
    groups = _groups(jars)
    components = [
        *map(_package, sorted(packages, key=lambda package: package.name.lower())),
        *(_jar(jar, groups) for extra in EXTRAS for jar in sorted((jars / extra).glob("*.jar"))),
    ]
    bom: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).isoformat().replace("+00:00", "Z"),
            "component": _library(project["Name"], project["Version"], "pypi", "application"),
        },
        "components": components,
    }
    bom["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bom, sort_keys=True))}"
    file.write_text(json.dumps(bom, indent=1) + "\n", encoding="utf-8")


def _library(name: str, version: str, kind: str, component: str = "library") -> dict[str, Any]:
    purl = f"pkg:{kind}/{name}@{version}"
    return {"type": component, "bom-ref": purl, "name": name.rpartition("/")[2], "version": version, "purl": purl}


def _package(installed: Distribution) -> dict[str, Any]:
    name = re.sub(r"[-_.]+", "-", installed.name).lower()
    component = _library(name, installed.version, "pypi")
    metadata = installed.metadata
    licenses = metadata.get_all("License-Expression") or metadata.get_all("License") or []
    if licenses and "\n" not in licenses[0]:
        component["licenses"] = [{"license": {"name": licenses[0]}}]
    return component


def _jar(jar: Path, groups: Mapping[str, str]) -> dict[str, Any]:
    name = max((artifact for artifact in groups if jar.name.startswith(f"{artifact}-")), key=len, default="")
    if not name:
        raise SystemExit(f"{jar}: its group is unknown; list it in conf/jvm/pom.xml")
    group, version = groups[name], jar.stem.removeprefix(f"{name}-")
    return {
        **_library(f"{group}/{name}", version, "maven"),
        "group": group,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(jar.read_bytes()).hexdigest()}],
    }


def _groups(jars: Path) -> dict[str, str]:
    """Return the group of each artifact that Maven has listed for the broker, or that its project names."""
    listed = _COORDINATES.findall((jars / "broker" / "dependencies.txt").read_text(encoding="utf-8"))
    named = _ITEM.findall(Path(__file__).parents[1].joinpath("jvm", "pom.xml").read_text(encoding="utf-8"))
    return {artifact: group for group, artifact in (*listed, *named)}
