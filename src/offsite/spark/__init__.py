"""Spark as it is used here: tasks in, outcomes out. Only this room and `table` know Spark; only `session.py` and
`local/pyspark_internals.py` build a SparkContext."""
