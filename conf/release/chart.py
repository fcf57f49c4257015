"""The archive of the Helm chart written without Helm, whose archives have the current time."""

import gzip
import io
import re
import tarfile
from pathlib import Path


def write_chart(folder: Path, chart: Path, version: str, epoch: int) -> Path:
    """Write the archive of a chart with this time (seconds since the epoch) for all files; links become their files."""
    described = (chart / "Chart.yaml").read_text(encoding="utf-8")
    fields = dict(re.findall(r"^(name|version): (\S+)", described, re.MULTILINE))
    if fields["version"] != version:
        raise SystemExit(f"{chart / 'Chart.yaml'}: version {fields['version']} is not {version}, that of the project")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for file in sorted(path for path in chart.rglob("*") if path.is_file()):
            content = file.read_bytes()
            member = tarfile.TarInfo(f"{fields['name']}/{file.relative_to(chart)}")
            member.size, member.mtime = len(content), epoch
            archive.addfile(member, io.BytesIO(content))
    packed = folder / f"{fields['name']}-{version}.tgz"
    packed.write_bytes(gzip.compress(out.getvalue(), mtime=epoch))
    return packed
