"""Secrets, certificates and keys, which are read when they are used and checked when the settings are loaded."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, SecretStr

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
IN_FILE = "file:"
"""The beginning of a secret's setting that is the path of a file with the secret."""

_PLAIN_KEY, ENCRYPTED_KEY = "-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----"


def read_text(path: str) -> str:
    """Return the content of a file, or an empty text for an empty path."""
    try:
        return Path(path).read_text(encoding="utf-8") if path else ""
    except OSError as error:
        raise ValueError(f"{error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None


def read_certificates(path: str) -> str:
    """Return the certificates of a PEM file without the text around them, in which Python accepts only ASCII.

    An empty text for an empty path.
    """
    return "".join(f"{certificate}\n" for certificate in _CERTIFICATE.findall(read_text(path)))


def _check_certificate(path: str) -> str:
    if path and not read_certificates(path):
        raise ValueError("not a certificate in PEM format")
    return path


def _check_key(path: str) -> str:
    text = read_text(path)
    if path and not (_PLAIN_KEY in text or ENCRYPTED_KEY in text):
        raise ValueError("not a PKCS#8 key, which Java requires; convert it with openssl pkcs8 -topk8 -nocrypt")
    return path


def _check_secret(secret: SecretStr) -> SecretStr:
    secret_value(secret)
    return secret


Secret = Annotated[SecretStr, AfterValidator(_check_secret)]
"""A secret, or `file:` and the path of a file with only the secret."""
CertificateFile = Annotated[str, AfterValidator(_check_certificate)]
KeyFile = Annotated[str, AfterValidator(_check_key)]


def secret_value(secret: SecretStr) -> str:
    """Return a secret, read from its file if it is in one; a newline at the end of the file is ignored."""
    value = secret.get_secret_value()
    if value.startswith(IN_FILE):
        file = value.removeprefix(IN_FILE)
        try:
            value = read_text(file).rstrip("\r\n")
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from None
        if not value:
            raise ValueError(f"{file} is empty" if file else f"expected {IN_FILE}PATH")
    if _CONTROL.search(value):
        raise ValueError("has a control character")
    return value
