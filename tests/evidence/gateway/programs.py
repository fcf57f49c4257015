"""The programs that are run at the broker and at the gateway."""

from tests.evidence.gateway.admin_client import ADMIN_CLIENT
from tests.evidence.gateway.connect import CONNECT_WORKER
from tests.evidence.gateway.franz_go import FRANZ_GO
from tests.evidence.gateway.hand_made import HAND_MADE
from tests.evidence.gateway.kafka_python import KAFKA_PYTHON
from tests.evidence.gateway.librdkafka import LIBRDKAFKA
from tests.evidence.gateway.streams import STREAMS
from tests.evidence.gateway.topic_command import TOPIC_COMMAND

PROGRAMS = (ADMIN_CLIENT, HAND_MADE, TOPIC_COMMAND, LIBRDKAFKA, KAFKA_PYTHON, FRANZ_GO, STREAMS, CONNECT_WORKER)
