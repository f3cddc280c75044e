"""Pods come and go for long: on a simulated API server, or on a real control plane with the real scheduler."""
