"""Login modules of Kafka's Java client, in the syntax of its property `sasl.jaas.config`."""

from collections.abc import Mapping

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})


def jaas_config(module: str, options: Mapping[str, str]) -> str:
    """Return the configuration of a login module.

    Args:
        module: the name of its class, without `org.apache.kafka.common.security.`.
        options: its options; they may hold any character.
    """
    quoted = (f'{name}="{value.translate(_ESCAPES)}"' for name, value in options.items())
    return f"org.apache.kafka.common.security.{module} required {' '.join(quoted)};"
