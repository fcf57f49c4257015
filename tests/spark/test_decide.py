"""The stateful stage's function: packed requests and a state, as a stage hands them over."""

import json

import msgspec

from jobs.enforce.stages import EnforceConfig, answer_requests
from quota.admission.policy import Policy
from quota.records.quota_log import Window
from quota.records.record import BEGINNING
from tests.support.factories import request_json
from tests.support.replay.engine import State
from tests.support.rows import kafka_rows, pack_request

ANSWERING = EnforceConfig(Window(100), Policy(), "decisions", "dead-letters")
RESOLUTION = f'[["alice",""],{{"quota":{{"controller_mutation_rate":5.0}},"since":{BEGINNING}}},{{"user":"alice"}}]'
UNLIMITED = '[["",""],null,null]'


def resolved(rows, error=None, resolution=RESOLUTION):
    return [pack_request(row, error, resolution) for row in rows]


def decide(rows, state, key='["alice",""]'):
    answers = answer_requests(ANSWERING, key, rows, state)
    return [(topic, record_key, json.loads(value)) for topic, record_key, value in answers]


def test_dead_letters_and_unlimited_requests_leave_no_state():
    rows = [
        *resolved(kafka_rows([b"\xff"]), error="value: not UTF-8 (byte 0xff at 0)", resolution=None),
        *resolved(kafka_rows([request_json(10**6)], first_offset=1), resolution=UNLIMITED),
    ]
    state = State()
    (letter, decided) = decide(rows, state, key="[0]")
    assert (decided[0], decided[2]["outcome"], decided[2]["quota"]) == ("decisions", "ADMITTED", None)
    assert (letter[0], letter[2]["value"]) == ("dead-letters", "/w==")
    assert not state.exists


def test_a_rejected_request_writes_no_state():
    state = State((-60.0, 0, 5.0, None, None, None, None))
    state.update = None  # calling it would fail
    ((_, _, rejected),) = decide(resolved(kafka_rows([request_json(1)], timestamps=[1000])), state)
    assert (rejected["outcome"], rejected["tokens"]) == ("REJECTED", -55.0)


def test_further_state_of_another_version_is_ignored():
    more = msgspec.msgpack.encode({"of_a_later_version": [1, 2], "remembered": {}})
    state = State((100.0, 0, 5.0, None, None, None, more))
    ((_, _, decided),) = decide(resolved(kafka_rows([request_json(1)], timestamps=[0])), state)
    assert decided["tokens"] == 99
