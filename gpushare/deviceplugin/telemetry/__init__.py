"""Counters, the real use of pods, and how Prometheus reads both."""
