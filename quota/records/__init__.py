"""The JSON records of the topics and the values in them, each with its reader."""
