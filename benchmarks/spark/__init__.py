"""Spark and the broker on one machine: one runner, and what it runs by subject.

spark_read, spark_sink, spark_archive, spark_cardinal, spark_audit
         each a dictionary of scenarios: from a session and a count of rows to a Run
runs     what they share: Run, warm code before the clock, the end of a stream
"""
