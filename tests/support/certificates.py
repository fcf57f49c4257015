"""Certificates of tests, by openssl: an authority, a broker's, a client's."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

_DAYS = "2"
_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key (PKCS#8), as files in PEM."""

    path: Path
    key: Path


class Authority:
    """Signs certificates."""

    def __init__(self, folder: Path) -> None:
        """Make a new one in a folder, which is made."""
        folder.mkdir()
        self._folder = folder
        self._own = Certificate(folder / "ca.pem", folder / "ca.key")
        _openssl("req", "-x509", *_CURVE, "-nodes", *_files(self._own), "-days", _DAYS, "-subj", "/CN=authority")

    @property
    def path(self) -> Path:
        """Its own certificate, which clients trust."""
        return self._own.path

    def sign(self, name: str, address: str | None = None, password: str | None = None) -> Certificate:
        """A certificate of a name; with an address it is that of a broker, with a password its key is encrypted."""
        made = Certificate(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        where = [] if address is None else ["-addext", f"subjectAltName=IP:{address}"]
        signer = ["-CA", str(self._own.path), "-CAkey", str(self._own.key)]
        _openssl(
            "req", "-x509", *_CURVE, "-nodes", *_files(made), *signer, "-days", _DAYS, "-subj", f"/CN={name}", *where
        )
        if password is None:
            return made
        encrypted = Certificate(made.path, made.key.with_suffix(".encrypted"))
        given = ("-in", str(made.key), "-out", str(encrypted.key), "-passout", f"pass:{password}")
        _openssl("pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", *given)  # all that Java 17 reads
        return encrypted


def _files(made: Certificate) -> list[str]:
    return ["-out", str(made.path), "-keyout", str(made.key)]


def _openssl(*args: str) -> None:
    subprocess.run(["openssl", *args], check=True, capture_output=True)
