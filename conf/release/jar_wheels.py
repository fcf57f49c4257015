"""Wheels that contain only jars, one for each extra that needs them: they are large, and seldom change."""

import hashlib
import time
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

EXTRAS = {
    "spark": "Delta and Spark's connector to Kafka",
    "s3": "what Spark needs for a storage root in S3",
    "broker": "a Kafka broker",
}
"""The content of the jars of each extra."""

_WHEEL = "Wheel-Version: 1.0\nGenerator: kafka-mutation-quota\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_METADATA = """\
Metadata-Version: 2.1
Name: kafka-mutation-quota-{extra}-jars
Version: {version}
Summary: Jars for kafka-mutation-quota[{extra}]: {about}
License: Apache-2.0, and those of the jars
"""


def write_jar_wheel(folder: Path, extra: str, version: str, jars: Path, epoch: int) -> Path:
    """Write the wheel of the jars in a folder, with this time (seconds since the epoch) for all files."""
    package = f"kafka_mutation_quota_{extra}_jars"
    info = f"{package}-{version}.dist-info"
    wheel = folder / f"{package}-{version}-py3-none-any.whl"
    files = sorted(jars.glob("*.jar"))
    if not files:
        raise SystemExit(f"no jars in {jars}; run make jars S3=1")
    contents = {
        f"{package}/__init__.py": f'"""Jars: {EXTRAS[extra]}."""\n'.encode(),
        **{f"{package}/{jar.name}": jar.read_bytes() for jar in files},
        f"{info}/METADATA": _METADATA.format(extra=extra, version=version, about=EXTRAS[extra]).encode(),
        f"{info}/WHEEL": _WHEEL.encode(),
    }
    record = [f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in contents.items()]
    contents[f"{info}/RECORD"] = "".join([*record, f"{info}/RECORD,,\n"]).encode()
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in contents.items():
            member = zipfile.ZipInfo(name, time.gmtime(epoch)[:6])
            member.external_attr = 0o100644 << 16
            archive.writestr(member, content)  # stored: a jar is compressed
    return wheel


def _digest(content: bytes) -> str:
    return urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
