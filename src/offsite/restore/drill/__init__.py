"""A restore for the sake of the proof, and the report of the proof."""
