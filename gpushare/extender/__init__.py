"""Program 1: the scheduler extender.

A request walks ``http_server`` (bytes) → ``messages`` (values) → ``filter`` or ``bind`` → ``placement`` (which card),
over the ``cache``, which ``controller`` feeds from the API server. ``placement``, ``filter`` and ``inspection`` are
pure.
"""
