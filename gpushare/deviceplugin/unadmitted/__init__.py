"""Pods that failed admission for a reason that has passed."""
