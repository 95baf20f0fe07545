"""The processes of an operator: agents that copy, and jobs that delete expired data."""
