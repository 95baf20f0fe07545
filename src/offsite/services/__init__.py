"""One use case per file: what a command, an API or an operator asks for, over the ends and the pipeline."""
