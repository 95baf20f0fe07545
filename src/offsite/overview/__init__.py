"""An overview of a repository: its contents and its condition."""
