"""The embedded cluster against the real one: the same code runs on both, and what it saw must be equal.

``sides`` are the two API servers; ``parity_requests`` are cases as data; ``compare`` takes away what cannot be equal (uids,
versions, times); known differences are rows of ``differences.yaml``, each with its reason.
Without the programs of a real control plane every case is skipped.
"""
