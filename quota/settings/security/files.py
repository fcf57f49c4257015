"""Secrets, certificates and keys, whose files are read and checked when they are used.

A file may be missing where a program uses none of it: several programs share one settings file.
"""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, SecretStr

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
IN_FILE = "file:"
"""The beginning of a secret's setting that is the path of a file with the secret."""

_PLAIN_KEY, _ENCRYPTED_KEY = "-----BEGIN PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----"


def read_text(path: str) -> str:
    """Return the content of a file, or an empty text for an empty path."""
    try:
        return Path(path).read_text(encoding="utf-8") if path else ""
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8") from None


def read_certificates(path: str) -> str:
    """Return the certificates of a PEM file without the text around them, in which Python accepts only ASCII.

    An empty text for an empty path.
    """
    certificates = "".join(f"{certificate}\n" for certificate in _CERTIFICATE.findall(read_text(path)))
    if path and not certificates:
        raise ValueError(f"{path}: not a certificate in PEM format")
    return certificates


def read_key(path: str, password: str) -> str:
    """Return the private key of a PEM file, whose password is given if it is encrypted; nothing for an empty path."""
    text = read_text(path)
    if path and not (_PLAIN_KEY in text or _ENCRYPTED_KEY in text):
        raise ValueError(
            f"{path}: not a PKCS#8 key, which Java requires; convert it with openssl pkcs8 -topk8 -nocrypt"
        )
    if _ENCRYPTED_KEY in text and not password:
        raise ValueError(f"{path} is encrypted, and needs ssl_key_password")
    if password and _ENCRYPTED_KEY not in text:
        raise ValueError("ssl_key_password is given, but the key in ssl_key_location is not encrypted")
    return text


def _check_secret(secret: SecretStr) -> SecretStr:
    value = secret.get_secret_value()
    if value == IN_FILE:
        raise ValueError(f"expected {IN_FILE}PATH")
    if not value.startswith(IN_FILE):
        secret_value(secret)
    return secret


Secret = Annotated[SecretStr, AfterValidator(_check_secret)]
"""A secret, or `file:` and the path of a file with only the secret."""


def secret_file(secret: SecretStr) -> str | None:
    """Return the path of the file that has a secret; None for a secret that is not in a file."""
    value = secret.get_secret_value()
    return value.removeprefix(IN_FILE) if value.startswith(IN_FILE) else None


def secret_value(secret: SecretStr) -> str:
    """Return a secret, read from its file if it is in one; a newline at the end of the file is ignored."""
    value, file = secret.get_secret_value(), secret_file(secret)
    if file is not None:
        value = read_text(file).rstrip("\r\n")
        if not value:
            raise ValueError(f"{file} is empty")
    if _CONTROL.search(value):
        raise ValueError("has a control character")
    return value
