"""Explanations of an object store's errors, with the settings to check."""

import re
from collections.abc import Iterator

from quota.errors import MutationQuotaError
from quota.settings.storage import S3_SCHEME

_KEYS = "storage.options fs.s3a.access.key and fs.s3a.secret.key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"

_PROBLEMS = {
    r"ExpiredToken|TokenRefreshRequired|token (included in the request )?(has|is) expired": (
        "the credentials have expired; renew them (fs.s3a.session.token of storage.options, or AWS_SESSION_TOKEN)"
    ),
    "InvalidAccessKeyId": f"the store does not know the access key; check {_KEYS}",
    "SignatureDoesNotMatch": f"the secret key is not the one of the access key; check {_KEYS}",
    "NoSuchBucket|UnknownStoreException|bucket does not exist": (
        "there is no such bucket; create it, or correct storage.root"
    ),
    r"AuthorizationHeaderMalformed|PermanentRedirect|redirect without LOCATION|Status Code: 301": (
        "the bucket is in another region; set storage.options fs.s3a.endpoint.region to it"
    ),
    r"169\.254\.|NoAuthWithAWSException|NoAwsCredentials|Unable to load credentials|No AWS Credentials"
    "|loading credentials|IMDS": (f"there are no credentials; set {_KEYS}, or give the machine a role"),
    "RequestTimeTooSkewed": "the clock of this machine differs too much from that of the store; correct it",
    r"AccessDenied|lacked the necessary privileges|403 Forbidden|Status Code: 403|InvalidToken": (
        "the store denies access with these credentials; allow them to list the bucket, and to get, put and delete "
        "objects below the root"
    ),
    "invalid peer certificate|PKIX path|No subject alternative|SSL peer certificate|SSL CA cert": (
        "the certificate of {endpoint} is not accepted; name its CA in SSL_CERT_FILE and in Java's trust store, or "
        "check its host name and dates"
    ),
    r"Connection refused|ConnectException|NoRouteToHost|dns error|UnknownHost|Name or service not known"
    r"|timed out|ConnectTimeout|client error \(Connect\)|SlowDown|ServiceUnavailable|\b50[0-4] [A-Z]|Status Code: 50": (
        "{endpoint} does not answer; check storage.options fs.s3a.endpoint, and that the store runs"
    ),
}
"""The messages, by a pattern in the text of Hadoop's or deltalake's error; the first match is used."""

NO_SPACE = "No space left on device|Disk quota exceeded|quota of .* is exceeded"
"""A pattern of errors of a full disk."""

FREE_SPACE = "; free some space there"
"""The end of the message about a table that needs more space."""

_FRAME = re.compile(r"\s+(at \S|\.\.\. \d+ more)")
"""A line of a Java stack trace below the message."""

_INSIDE = ("Caused by:", "Suppressed:")
"""The prefixes of the causes in a Java stack trace."""

_OF_STORE = r"s3a://|\bS3\b|\.s3a\.|\bAWS|software\.amazon\.awssdk|com\.amazonaws"
"""Words in the message or the stack trace of an error of Hadoop's S3 file system, or of the AWS SDK below it."""

_OF_KAFKA = re.compile(r"org\.apache\.kafka\.|software\.amazon\.msk|LoginException|SaslException")
"""Words of errors of Kafka's client, including those of its login by AWS credentials."""

_ORNAMENT = re.compile(r"\x1b\[[0-9;]*m|↳")
"""Colours and arrows in the multi-line errors of deltalake."""

_MAX_REASON = 200


class StoreError(MutationQuotaError):
    """A file or table of a storage root cannot be read or written."""


def store_error(root: str, path: str, problem: str, text: str, endpoint: str | None) -> StoreError:
    """Return the error about a file or table of a storage root on a disk or in an object store."""
    if known := store_problem(root, text, endpoint):
        return StoreError(known)
    options = ", and storage.options" if "://" in root else ""
    check = f"; check that storage.root is reachable and complete{options}"
    return StoreError(f"{root}/{path} {problem}: {one_line(text)}{FREE_SPACE if re.search(NO_SPACE, text) else check}")


def one_line(text: str) -> str:
    """Return the text of a library's error as one line of at most 200 characters."""
    lines = (line.strip() for line in _ORNAMENT.sub("", text).splitlines())
    return ": ".join(line.rstrip(".") for line in lines if line)[:_MAX_REASON]


def store_problem(root: str, text: str, endpoint: str | None) -> str | None:
    """Return what is wrong with a root in S3 according to an error of the store, and what to do, as one line.

    None if the root is not in S3, or the error is another one.
    """
    if not root.startswith(S3_SCHEME):
        return None
    for pattern, problem in _PROBLEMS.items():
        if re.search(pattern, text):
            return f"{root} cannot be used: {problem.format(endpoint=endpoint or 'the store')}"
    return None


def store_problem_among(root: str, text: str, endpoint: str | None) -> str | None:
    """Return what is wrong with a root in S3 according to one of the causes of an error, and what to do.

    Errors of other servers, such as Kafka's brokers or a token server, do not count.
    """
    server = re.escape(endpoint.rpartition("://")[2].partition("/")[0]) if endpoint else ""
    of_store = re.compile(rf"{_OF_STORE}|\b{server}(:443|:80)?(?!:?\w)" if server else _OF_STORE)
    is_kafka = False
    for message, frames in _causes(text):
        trace = f"{message}\n{frames}"
        is_kafka = bool(_OF_KAFKA.search(trace)) or (is_kafka and message.startswith(_INSIDE))
        if not is_kafka and of_store.search(trace) and (problem := store_problem(root, message, endpoint)):
            return problem
    return None


def messages_of(text: str) -> str:
    """Return the lines of an error's text without the Java stack traces."""
    return "\n".join(message for message, _ in _causes(text))


def _causes(text: str) -> Iterator[tuple[str, str]]:
    """Yield each line of an error's text that is not in a Java stack trace, with the stack trace below it."""
    message, frames = "", list[str]()
    for line in text.splitlines():
        if _FRAME.match(line):
            frames.append(line)
            continue
        yield message, "\n".join(frames)
        message, frames = line.strip(), []
    yield message, "\n".join(frames)
