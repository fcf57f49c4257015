"""Logging as in Kafka's own configuration: a separate request log, with a new file each hour."""

from pathlib import Path

PATTERN = "[%d] %p %m (%c)%n"
REQUEST_LOGGER = "kafka.request.logger"
REQUEST_LOG = "kafka-request.log"
SERVER_LOG = "server.log"
_LOG4J_2_SINCE = 4

_LOG4J_1 = f"""\
log4j.rootLogger=WARN, server
log4j.appender.server=org.apache.log4j.FileAppender
log4j.appender.server.File={{folder}}/{SERVER_LOG}
log4j.appender.server.layout=org.apache.log4j.PatternLayout
log4j.appender.server.layout.ConversionPattern={PATTERN}
log4j.appender.request=org.apache.log4j.DailyRollingFileAppender
log4j.appender.request.DatePattern='.'yyyy-MM-dd-HH
log4j.appender.request.File={{folder}}/{REQUEST_LOG}
log4j.appender.request.layout=org.apache.log4j.PatternLayout
log4j.appender.request.layout.ConversionPattern={PATTERN}
log4j.logger.{REQUEST_LOGGER}={{level}}, request
log4j.additivity.{REQUEST_LOGGER}=false
"""

_LOG4J_2 = f"""\
Configuration:
  Appenders:
    File:
      name: Server
      fileName: "{{folder}}/{SERVER_LOG}"
      PatternLayout: {{{{pattern: "{PATTERN}"}}}}
    RollingFile:
      name: Request
      fileName: "{{folder}}/{REQUEST_LOG}"
      filePattern: "{{folder}}/{REQUEST_LOG}.%d{{{{yyyy-MM-dd-HH}}}}"
      PatternLayout: {{{{pattern: "{PATTERN}"}}}}
      TimeBasedTriggeringPolicy: {{{{modulate: true, interval: 1}}}}
  Loggers:
    Root:
      level: WARN
      AppenderRef: {{{{ref: Server}}}}
    Logger:
      name: {REQUEST_LOGGER}
      level: {{level}}
      additivity: false
      AppenderRef: {{{{ref: Request}}}}
"""


def log_options(version: str, folder: Path, level: str) -> list[str]:
    """Write the configuration for a version of Kafka, and return Java's options that name it.

    Args:
        version: Version of Kafka; log4j 1 before version 4, log4j 2 from then on.
        folder: Folder of the configuration and the logs.
        level: Level of the request log.
    """
    if int(version.split(".", maxsplit=1)[0]) < _LOG4J_2_SINCE:
        path = folder / "log4j.properties"
        path.write_text(_LOG4J_1.format(folder=folder, level=level))
        return [f"-Dlog4j.configuration=file:{path}"]
    path = folder / "log4j2.yaml"
    path.write_text(_LOG4J_2.format(folder=folder, level=level))
    return [f"-Dlog4j2.configurationFile={path}"]
