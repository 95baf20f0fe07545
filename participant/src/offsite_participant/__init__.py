"""For applications that take part in checkpoints without Kafka transactions: applications stamp their records with the
number of the newest checkpoint, and take a checkpoint before handling a record with a higher number.

An engine of a log processor embeds the rules in `bcs`, `bcs_copies` and `bcs_snapshots` instead.

An application with outputs for its inputs uses a wrapper of its client, `offsite_participant.confluent` or
`offsite_participant.kafka_python`. The rules are in `offsite_participant.core`, independent of any client. The package
imports only the standard library until a wrapper makes its clients.
"""

from __future__ import annotations
