"""Input from outside: strict JSON, places, text of strangers, and Java's last words. Pure."""
