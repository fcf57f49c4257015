"""Builds a release: `python -m conf.release FOLDER`.

The folder gets the sdist, the wheel, a wheel of jars for each extra that has some, the Helm chart, the SBOM, the
release notes and the checksums; with the Dockerfile, it is also the context of the image. The same source gives the
same bytes.
"""

import hashlib
import os
import re
import shutil
import sys
from pathlib import Path

from conf.release.chart import write_chart
from conf.release.distributions import EARLIEST, build
from conf.release.jar_wheels import EXTRAS, write_jar_wheel
from conf.release.sbom import write_sbom

ROOT = Path(__file__).resolve().parents[2]


def main(folder: Path) -> None:
    """Build the release of this checkout into a folder, which is replaced."""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or EARLIEST)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wheel = build(ROOT, folder, epoch)
    version = wheel.name.split("-")[1]
    for extra in EXTRAS:
        write_jar_wheel(folder, extra, version, ROOT / ".jars" / extra, epoch)
    write_chart(folder, ROOT / "conf" / "helm", version, epoch)
    write_sbom(folder / "sbom.cdx.json", wheel, ROOT / ".jars", epoch)
    (folder / "RELEASE.md").write_text(release_notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version))
    for file in ("conf/constraints.txt", "conf/containers/Dockerfile"):
        shutil.copyfile(ROOT / file, folder / Path(file).name)
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(folder.iterdir())]
    (folder / "SHA256SUMS").write_text("".join(sums))


def release_notes(changelog: str, version: str) -> str:
    """Return the section of a version."""
    section = re.search(rf"^## {re.escape(version)}\b.*?(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if not section:
        raise SystemExit(f"CHANGELOG.md has no section {version}")
    return section[0].rstrip() + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
