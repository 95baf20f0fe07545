"""A backup as a table: the plan of a read (`row_filter`, `scan_plan`), the read (`scan`), and Spark's view of both
(`datasource`, `stream`). Reads only."""
