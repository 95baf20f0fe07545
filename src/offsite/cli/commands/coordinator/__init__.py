"""`offsite serve`, what coordinators do, and `offsite doctor`, which they answer as well."""
