"""Settings of the logins that tests of the settings share."""

SASL = ["kafka.security_protocol=SASL_SSL", "kafka.sasl_mechanism=PLAIN", "kafka.sasl_username=alice"]
"""A login by a password, which is left out."""

TOKENS = [
    "kafka.security_protocol=SASL_PLAINTEXT",
    "kafka.sasl_mechanism=OAUTHBEARER",
    "kafka.sasl_oauthbearer_token_endpoint_url=http://idp/token",
    "kafka.sasl_oauthbearer_client_id=enforce",
    "kafka.sasl_oauthbearer_client_secret=of-hunter2",
]
"""A login by the tokens of a server."""


def by_function(name):
    """Return a login by the tokens of a function, as `module:function`."""
    return [*TOKENS[:2], f"kafka.sasl_oauthbearer_token_function={name}"]
