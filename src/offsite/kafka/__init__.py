"""The Kafka end: every conversation with a broker. Raw batches in and out, metadata, administration.

The room runs on the driver and inside Spark's Python workers, so an import of the room stays cheap: `kafka`
(kafka-python) and `ssl` are imported by the functions that use them.
"""
