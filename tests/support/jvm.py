"""What a JVM of the tests is started with."""

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""One that ends within minutes gains nothing from a second compiler: a start takes half the work."""

SPARKS = {"SPARK_SUBMIT_OPTS": QUICK}
"""For the environment of whoever starts a Spark; unlike JAVA_TOOL_OPTIONS it is not told on standard error."""
