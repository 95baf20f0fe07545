"""The operator in Kubernetes."""
