"""Spark on this machine: the JVM, its class archive, and the template that workers are forked from."""
