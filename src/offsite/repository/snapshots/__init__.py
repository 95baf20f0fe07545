"""Objects beside the commits: groups, cluster settings, group changes, drills."""
