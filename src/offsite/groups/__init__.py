"""Consumer groups: their commits at a restore point, the matching offsets on a target, and the restore of the
commits."""
