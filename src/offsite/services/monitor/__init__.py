"""What a backup that goes on tells about itself: metrics for Prometheus, and whether it lives and is up to date."""
