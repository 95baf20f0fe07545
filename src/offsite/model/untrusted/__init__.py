"""What comes from outside: bounds, strict JSON, numbers, names and text that somebody else wrote. Pure."""
