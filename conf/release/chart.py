"""The archive of the Helm chart written without Helm, whose archives have the current time."""

import gzip
import io
import re
import tarfile
from pathlib import Path


def write_chart(folder: Path, chart: Path, version: str, epoch: int) -> Path:
    """Write the archive of a chart with this time (seconds since the epoch) for all files; links become their files."""
    described = (chart / "Chart.yaml").read_text(encoding="utf-8")
    found = dict(re.findall(r"^(name|version): (\S+)", described, re.MULTILINE))
    if found["version"] != version:
        raise SystemExit(f"{chart / 'Chart.yaml'}: version {found['version']} is not {version}, that of the project")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for file in sorted(each for each in chart.rglob("*") if each.is_file()):
            content = file.read_bytes()
            member = tarfile.TarInfo(f"{found['name']}/{file.relative_to(chart)}")
            member.size, member.mtime = len(content), epoch
            archive.addfile(member, io.BytesIO(content))
    packed = folder / f"{found['name']}-{version}.tgz"
    packed.write_bytes(gzip.compress(out.getvalue(), mtime=epoch))
    return packed
