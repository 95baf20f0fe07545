"""The work of workers: copy a range from one end to the other, and the decisions before the copy. Pure plans, thin
copies; `restore` writes into a cluster, `compare` reads both ends."""
