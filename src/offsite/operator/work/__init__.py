"""What the processes of an operator do: agents that copy, and jobs that let old data go."""
