"""Input from outside: bounds, strict JSON, numbers, names and text of strangers. Pure."""
