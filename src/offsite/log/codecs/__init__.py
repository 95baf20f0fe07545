"""What is compressed in a log: the codecs of batches, and frames that never become larger than allowed."""
