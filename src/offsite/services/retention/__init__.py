"""Retention: how long restore points are kept, and what goes when none needs it."""
