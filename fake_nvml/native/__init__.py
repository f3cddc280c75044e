"""Simulated cards as a C library, ``libnvidia-ml.so.1``: any program of any language loads it in place of NVIDIA's.

``session.c``, ``cards.c`` and ``events.c`` answer the calls; ``core.c_source`` writes the rest of the source out of Python
(the records of ``layout``, functions that answer NOT_SUPPORTED, the symbols of each driver era); ``build`` compiles it into
the user's cache.

Membership rule: only what the C library is made of. The rest of the package never needs it.
"""
