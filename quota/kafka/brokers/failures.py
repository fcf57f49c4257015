"""Failures of connections to brokers and token servers, and their reasons."""

import ssl

from scramp import ScramException

from quota.errors import MutationQuotaError

FAILURES = (OSError, EOFError, UnicodeError, ScramException, MutationQuotaError)
"""The exceptions of a connection, a login and a call. TimeoutError is an OSError; an invalid host is a UnicodeError."""


def failure_reason(error: BaseException) -> str:
    """Return the reason of a failure, for the end of a sentence."""
    match error:
        case TimeoutError():
            return "no answer"
        case EOFError():
            return "it closes the connection, as a listener with another security protocol does"
        case ssl.SSLCertVerificationError(verify_message=message):
            return f"certificate verify failed: {message}"
        case ssl.SSLError(reason=str(text)):
            return f"TLS fails: {text.replace('_', ' ').lower()}"
        case ConnectionRefusedError():
            return "connection refused"
        case _:
            return str(error)
