"""A SparkContext, started and ended: in a JVM of this machine, on a cluster, by `spark-submit`, or somebody else's."""
