"""Secrets, certificates and keys, as settings or in files, checked when the settings are loaded."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, SecretStr

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_PLAIN_KEY, ENCRYPTED_KEY = "-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----"


def read_text(path: str) -> str:
    """Return the content of a file, or an empty text for an empty path.

    Raises:
        ValueError: the file cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8") if path else ""
    except OSError as error:
        raise ValueError(f"{error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None


def read_certificates(path: str) -> str:
    """Return the certificates of a PEM file without the text around them, in which Python accepts only ASCII.

    An empty text for an empty path.

    Raises:
        ValueError: the file cannot be read.
    """
    return "".join(f"{each}\n" for each in _CERTIFICATE.findall(read_text(path)))


def _check_readable(path: str) -> str:
    read_text(path)
    return path


def _check_certificate(path: str) -> str:
    if path and not read_certificates(path):
        raise ValueError("not a certificate in PEM format")
    return path


def _check_key(path: str) -> str:
    text = read_text(path)
    if path and not (_PLAIN_KEY in text or ENCRYPTED_KEY in text):
        raise ValueError("not a PKCS#8 key, which Java requires; convert it with openssl pkcs8 -topk8 -nocrypt")
    return path


def _check_printable(secret: SecretStr) -> SecretStr:
    if _CONTROL.search(secret.get_secret_value()):
        raise ValueError("has a control character")
    return secret


Secret = Annotated[SecretStr, AfterValidator(_check_printable)]
SecretFile = Annotated[str, AfterValidator(_check_readable)]
CertificateFile = Annotated[str, AfterValidator(_check_certificate)]
KeyFile = Annotated[str, AfterValidator(_check_key)]


def secret_value(secret: SecretStr, file: str) -> str:
    """Return a secret, read from its file if one is set.

    Raises:
        ValueError: the file cannot be read or is empty, or the secret has a control character.
    """
    if not file:
        return secret.get_secret_value()
    text = read_text(file).rstrip("\r\n")
    if not text:
        raise ValueError(f"{file} is empty")
    return _check_printable(SecretStr(text)).get_secret_value()
