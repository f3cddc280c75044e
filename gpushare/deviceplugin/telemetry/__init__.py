"""What is counted, what pods really use, and how Prometheus reads it."""
