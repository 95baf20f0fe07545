"""Is a backup what it says it is? History, segments, snapshots and records. Reads only."""
