"""The embedded cluster against the real one: the same code runs on both, and what it saw must be equal.

``sides`` are the two API servers, without what cannot be equal (uids, versions, times); ``parity_requests`` reads cases from
``api_cases.yaml``; known differences are rows of ``differences.yaml``, each with its reason.
Without the programs of a real control plane every case is skipped.
"""
