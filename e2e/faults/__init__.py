"""Cards, drivers and NVML that fail: after each fault the node's allocatable is right, other cards are untouched, pods are told.

How long the node took to show it is measured and printed; a case only fails where it never does.
"""
