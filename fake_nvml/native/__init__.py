"""Simulated cards as a C library, ``libnvidia-ml.so.1``: any program of any language loads it in place of NVIDIA's.

``session.c``, ``cards.c`` and ``events.c`` answer the calls; ``core.c_source`` writes the rest of the source out of Python
(the records of ``layout``, functions that answer NOT_SUPPORTED, the symbols of each driver era); ``build`` compiles it into
the user's cache.

``libcuda.so.1`` beside it simulates as much of CUDA as takes memory: ``cuda.c`` on ``held.c``, by which a process holds memory of
a card. ``place.c`` (where the state is) and ``visible.c`` (which cards a container sees) are parts of both.

Membership rule: only what the C libraries are made of.
"""
