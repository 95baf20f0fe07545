"""Spark on the local machine: the JVM, the class archive, and the template from which workers are forked."""
