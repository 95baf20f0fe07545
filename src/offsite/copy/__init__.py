"""What workers do: copy a range from one end to the other, and what is decided of it beforehand. Pure plans, thin
copies; `restore` writes into a cluster, `compare` reads both ends."""
