"""Retention: which restore points are kept, and which data expires because no restore point needs it."""
