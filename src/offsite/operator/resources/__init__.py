"""What may be declared, and how it is written. Pure."""
