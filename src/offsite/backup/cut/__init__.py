"""Takes the evidence for a cut from a live cluster: ends in a row, records of coordinators meanwhile, group commits.

Call order: `begin_readings`, everything that must lie before the ends (the snapshot of groups), `take_readings`,
`read_group_tail`.
"""
