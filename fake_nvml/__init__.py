"""Simulated cards below the real pynvml.

One state file (``core.layout``, ``state``) has the cards of a node and all that happens on them. A library in C
(``native``) answers NVML's calls out of it, so that every line of pynvml and of its callers runs as it would on a real
driver. ``fake-nvml exec -- CMD`` puts CMD on the simulated cards.

Here are card models, boxes, the state, the library, recordings and the commands. Nothing of the product is
imported.
"""
