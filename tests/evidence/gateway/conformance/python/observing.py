"""What the Python clients share: users, topics, requests, and observations as lines of JSON.

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


def mutations(new_topic):
    """Return the calls of an admin client by case and step; None lists topics. Each case has the user of its number."""
    return {
        "create": {
            "connect": None,
            "overdrawn by 8": lambda admin: admin.create_topics([new_topic(topic("a"), 11, 1)]),
            "in debt": lambda admin: admin.create_topics([new_topic(topic("b"), 1, 1)]),
            "another call of this client": None,
        },
        "delete": {
            "connect": None,
            "overdrawn by 8": lambda admin: admin.delete_topics([topic("deleted-a")]),
            "in debt": lambda admin: admin.delete_topics([topic("deleted-b")]),
        },
    }


def seen_of(case, answer):
    """Return the errors of an answer as text, and its throttle time [ms]."""
    errors = answer.topic_errors if case == "create" else answer.topic_error_codes
    return json.dumps(errors), answer.throttle_time_ms


def now():
    """Return the time [ms]."""
    return time.monotonic() * 1000


def write(case, step, sent, seen, throttle_ms):
    """Write what was seen of a call that was sent at a time [ms], and has returned now."""
    observed = {"case": case, "step": step, "seen": seen, "throttle_ms": throttle_ms}
    line = json.dumps({**observed, "sent": sent, "received": now()})
    sys.stdout.write(f"{line}\n")  # at once, unlike print: threads write, too
    sys.stdout.flush()
