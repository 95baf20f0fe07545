"""For applications that take part in checkpoints without Kafka transactions: they stamp what they produce with the
number of their newest checkpoint, and take a checkpoint before they handle a record with a higher one.

An application that writes outputs for its inputs takes a wrapper of its client, `offsite.participant.confluent` or
`offsite.participant.kafka_python`. The rules are `offsite.participant.core`; they know of no client. Nothing here
imports more than the standard library until a wrapper makes its clients.
"""

from __future__ import annotations
