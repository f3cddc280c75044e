"""What a container is told with its ids."""
