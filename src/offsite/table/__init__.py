"""A backup as a table: what to read of it (`row_filter`, `scan_plan`), reading it (`scan`), and Spark's view of both
(`datasource`, `stream`). Reads only."""
