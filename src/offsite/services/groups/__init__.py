"""Consumer groups: what they had committed at a restore point, where that lies on a target, and putting it there."""
