"""A backup as a table: the plan of a read (`scan_plan`), the read (`scan`), and Spark's view of both
(`datasource`, `stream`). Reads only."""
