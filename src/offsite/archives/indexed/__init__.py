"""Archives with an index of offsite, shared by Avro, Parquet and JSON lines: layout, index, reading, writing."""
