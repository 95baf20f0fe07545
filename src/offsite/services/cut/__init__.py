"""The evidence for a cut, taken from a live cluster: ends in a row, what coordinators wrote meanwhile, group commits.

`begin_readings`, then whatever must lie before the ends (the snapshot of groups), then `take_readings`, then
`read_group_tail`.
"""
