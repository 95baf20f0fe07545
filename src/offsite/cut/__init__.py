"""The consistent cut: which ends of many partitions belong together. Pure: facts about logs in, offsets out, no I/O.

Read in this order: `window` (the facts), `effect` (the rules as one shape), `greatest` (the algorithm), `cut` (the
answer), `group_offsets`, `topic_class`, `coverage`; `judge` checks all of it by other code. `bcs`, `bcs_copies`
and `bcs_snapshots` stand apart: checkpoints of log processors, for engines to embed.
"""
