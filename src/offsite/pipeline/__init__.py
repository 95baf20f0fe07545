"""Plan, Spark copy, receipts: from one end to the other. Only `session.py` builds a SparkContext."""
