"""Simulated cards below the real pynvml.

One state file (``layout``, ``state``) has the cards of a node and all that happens on them. A library (``fake_library`` in
Python, ``native`` in C) answers NVML's calls out of it, so that every line of pynvml and of its callers runs as it would
on a real driver. ``fake-nvml exec -- CMD`` puts CMD on the simulated cards.

Membership rule: card models, boxes, the state and the two libraries. Imports nothing of the product that it serves.
"""
