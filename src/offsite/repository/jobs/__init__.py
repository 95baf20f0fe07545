"""What is kept of a coordinator's long work: that it was asked for, how far it is, how it ended."""
