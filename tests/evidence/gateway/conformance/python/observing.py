"""What the Python clients share: users, topics, and observations as lines of JSON.

Arguments: PREFIX NAME ADDRESS FIRST_USER.
"""

import json
import sys
import time

PREFIX, SIDE, ADDRESS, FIRST_USER = *sys.argv[1:4], int(sys.argv[4])
WAIT_MS = 60_000


def topic(name):
    """Return the name of a topic of this client on this side."""
    return f"{SIDE}-{PREFIX}-{name}"


def login(number):
    """Return the options of the client of a user."""
    user = f"{SIDE}-{FIRST_USER + number:03}"
    return {
        "bootstrap_servers": ADDRESS,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": f"{user}-secret",
    }


def now():
    """Return the time [ms]."""
    return time.monotonic() * 1000


def write(case, step, sent, seen, throttle_ms):
    """Write what was seen of a call that was sent at a time [ms], and has returned now."""
    observed = {"case": case, "step": step, "seen": seen, "throttle_ms": throttle_ms}
    line = json.dumps({**observed, "sent": sent, "received": now()})
    sys.stdout.write(f"{line}\n")  # at once, unlike print: threads write, too
    sys.stdout.flush()
