"""What the errors of an object store mean, and which settings to look at."""

import re

from quota.settings.storage import StorageSettings

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
    r"169\.254\.|NoAuthWithAWSException|NoAwsCredentials|Unable to load credentials|No AWS Credentials": (
        f"there are no credentials; set {_KEYS}, or give the machine a role"
    ),
    r"AccessDenied|lacked the necessary privileges|403 Forbidden|Status Code: 403|InvalidToken": (
        "the store denies access with these credentials; allow them to list the bucket, and to get, put and delete "
        "objects below the root"
    ),
    r"Connection refused|ConnectException|NoRouteToHost|dns error|UnknownHost|Name or service not known"
    r"|timed out|ConnectTimeout|client error \(Connect\)|SlowDown|ServiceUnavailable|50[0-4] \w|Status Code: 50": (
        "{endpoint} does not answer; check storage.options fs.s3a.endpoint, and that the store runs"
    ),
}
"""What to say, by a pattern in the text of Hadoop's or deltalake's error; the first match counts."""


def store_problem(storage: StorageSettings, text: str) -> str | None:
    """Return what is wrong with a root in S3, and what to do.

    Args:
        storage: where the root is.
        text: the text of the error.

    Returns:
        One line without secrets; None if the root is not in S3, or the error is another one.
    """
    if not storage.is_s3:
        return None
    for pattern, problem in _PROBLEMS.items():
        if re.search(pattern, text):
            given = storage.options.get("fs.s3a.endpoint")
            endpoint = given.get_secret_value() if given else "the store"
            return f"{storage.root} cannot be used: {problem.format(endpoint=endpoint)}"
    return None
