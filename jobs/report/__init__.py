"""The report: one HTML page on the records of the audit."""
