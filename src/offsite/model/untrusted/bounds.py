"""What bytes from outside may claim, and what reading them may cost: one place, the same for the driver and workers.

Whoever wrote a repository, an archive or an answer may be wrong or hostile. A reader checks numbers against Kafka's own
limits before it computes with them, and expands nothing past what the commit or an index says it holds, or past
`MAX_EXPANDED_BYTES` where nothing says it.
"""

from __future__ import annotations

from offsite.model.size import MIB

MAX_OFFSET = (1 << 63) - 1
"""Offsets, counts, times in ms and sizes are signed 64-bit numbers in Kafka's protocol."""

MAX_PARTITIONS = 1_000_000
"""Partitions of one topic. Kafka numbers them with 32 bits; controllers make at most 10,000 in one request."""

MAX_EXPANDED_BYTES = 512 * MIB
"""What one compressed object or block may become where nothing that can be trusted says how large it is."""

MAX_OBJECT_BYTES = 1024 * MIB
"""An object of a repository or an archive that is read whole: a commit, a part of a catalog, the index of a segment."""

MAX_COMMIT_TIME_MS = 253_402_300_799_999
"""The end of the year 9999: times of stores' clocks, not those of records, which are whatever a producer wrote."""

MAX_RECORD_BYTES = 144 * MIB
"""One record of an archive in any form, which must be in memory whole, several times: a line, a block, a page. A record
of 100 MiB fits also in base64; brokers take no larger request unless they are told otherwise."""

MAX_RATIO = 1_000
"""How many times larger a stream may become than what was read of it, beyond `MAX_EXPANDED_BYTES`. gzip: 1,032."""

MAX_DIGITS = 19
"""Digits of the largest number in Kafka's protocol; Python refuses to read text of more than 4,300."""
