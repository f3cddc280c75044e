"""Cards, drivers and NVML that fail: after each fault the allocatable is right, other cards are untouched, pods get events.

The time that the node took to show it is measured and printed; a case only fails if it never does.
"""
