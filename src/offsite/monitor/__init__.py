"""What a continuous backup reports about itself: metrics for Prometheus, liveness and readiness."""
