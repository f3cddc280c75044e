"""Slots mode: exact MiB on cards of any size, one gpu-slot for each container. A cluster of its own, of one large node."""
