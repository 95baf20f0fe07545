"""Plan, Spark copy, receipts: the path from one end to the other. `session.py` is the only file that builds a SparkContext."""
