"""The consistent cut: which ends of many partitions belong together. Pure: facts about logs in, offsets out, no I/O.

Reading order: `window` (the facts), `effect` (the rules in one shape), `greatest` (the algorithm), `cut` (the answer),
`group_offsets`. The tests check everything by separate code. `bcs`, `bcs_copies` and `bcs_snapshots` are older names of
modules of `offsite_participant`.
"""
