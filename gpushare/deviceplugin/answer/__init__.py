"""The answer that a container gets with its ids."""
