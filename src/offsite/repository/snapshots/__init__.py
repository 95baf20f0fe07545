"""Objects beside the commits: groups, settings of the cluster, changes to groups, drills."""
