"""The APIs and versions that clients may use."""

import struct

import pytest

from quota.gateway.context import ChannelError
from quota.gateway.offered import OfferedApis


def versions(answer):
    return {api["apiKey"]: (api["minVersion"], api["maxVersion"]) for api in answer["apiKeys"]}


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_versions_known_to_both_the_gateway_and_the_broker_are_advertised(play, version):
    """The unknown API (999) and the withheld one (88) are omitted.

    Produce begins with the broker's own first version, for librdkafka's sake (KAFKA-18659).
    """
    answer = play().call(18, version, {"clientSoftwareName": "x", "clientSoftwareVersion": "1"} if version > 2 else {})
    assert versions(answer) == {
        0: (0, 13),
        1: (4, 17),
        3: (0, 13),
        10: (1, 6),
        17: (0, 1),
        18: (0, 4),
        19: (2, 7),
        20: (1, 6),
        37: (0, 3),
        78: (1, 2),
        79: (1, 2),
    }


def test_permissive_versions_can_be_omitted(play):
    advertised = versions(play(permissive=False).call(18, 3, {}))
    assert (advertised[19], advertised[37], advertised[20]) == ((6, 7), (3, 3), (5, 6))


def test_the_other_fields_of_the_answer_are_unchanged_and_a_tag_says_that_this_is_a_gateway(play):
    """Features, and tags that the gateway does not know."""
    on = play()
    feature = {"name": "f", "minVersion": 1, "maxVersion": 2}
    more = {"supportedFeatures": [feature], "finalizedFeaturesEpoch": 7, "_tags": [(50, b"new"), (20_000, b"newer")]}
    plain = on.cluster.answer
    on.cluster.answer = lambda *request: {**plain(*request), **more}
    answer = on.call(18, 4, {})
    marked = [(50, b"new"), (10_599, b"mutation-quota gateway"), (20_000, b"newer")]
    assert {name: answer[name] for name in more} == {**more, "_tags": marked}


@pytest.mark.parametrize("version", [6, 99, 32767])
def test_an_unknown_version_of_apiversions_is_answered_in_version_0(play, version):
    """The response is that of a broker: error 35, and the known versions."""
    on = play()
    frame = struct.pack(">hhih", 18, version, 77, -1) + b"\0" + b"\x01\x01" + b"\0"
    on.send_bytes(len(frame).to_bytes(4) + frame)
    assert bytes(on.ports.client[4:]) == struct.pack(">ihihhh", 77, 35, 1, 18, 0, 5)
    assert on.seen == []


def test_a_broker_that_does_not_know_the_version_is_understood(play):
    on = play()
    on.send(18, 4, {})
    on.next_answer()
    on.channel.from_broker(struct.pack(">iihihhh", 16, 1, 35, 1, 18, 0, 3))
    (answer,) = on.answers()
    assert (answer["errorCode"], versions(answer)) == (35, {18: (0, 3)})


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (88, 0),  # creates topics
        (58, 0),  # Envelope: a request of another client
        (19, 1),
        (37, 4),
        (0, 2),
        (999, 0),
        (19, -1),
    ],
)
def test_a_version_that_is_not_advertised_closes_the_connection(play, key, version):
    on = play()
    with pytest.raises(ChannelError, match=f"API {key} in version {version}, which is not offered"):
        on.send_bytes(struct.pack(">ihhih", 12, key, version, 1, -1) + bytes(2))
    assert bytes(on.ports.broker) == b""


def test_omitted_permissive_versions_are_rejected(play):
    """They are not only omitted from the advertised versions."""
    on = play(permissive=False)
    with pytest.raises(ChannelError, match="API 19 in version 5"):
        on.send(19, 5, {"topics": []})


def test_every_api_of_the_release_is_classified(protocol):
    """An API of a new release may create topics or name brokers: check it before adding it here."""
    known = {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 28, 29, 30, 31, 32}
    known |= {33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 55, 57, 60, 61, 64, 65, 66}
    known |= {68, 69, 71, 72, 74, 75, 76, 77, 78, 79, 80, 81, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 27}
    offered = OfferedApis(protocol, permissive=True)
    keys = {key for key, api in protocol.apis.items() if offered.offers(key, api.max_version)}
    assert keys == known - {88}
