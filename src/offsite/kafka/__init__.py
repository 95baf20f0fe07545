"""The Kafka end: everything that talks to a broker. Raw batches in and out, metadata, administration.

Runs on the driver and inside Spark's Python workers alike, so importing it stays cheap: `kafka` (kafka-python) and
`ssl` are imported where they are used.
"""
