"""Spark as offsite uses it: tasks in, outcomes out. Only this room and `table` know Spark. Only `session.py` and
`local/pyspark_internals.py` build a SparkContext."""
