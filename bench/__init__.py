"""What offsite moves per second on this machine, next to Kafka's own tools and to what one thread can do at most."""
