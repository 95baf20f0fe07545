"""Spark as offsite uses it: tasks in, outcomes out. Only this room and `table` know Spark. Only `sessions/` and
`local/pyspark_internals.py` build a SparkContext."""
