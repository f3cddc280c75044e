"""Program 1: the scheduler extender.

A request walks ``edge`` (bytes, who may ask what) → ``verbs`` (decode, decide, encode; ``messages``) → ``decisions`` (pure: which
nodes, which card, whose end) or ``bind``, over the ``book``, which follows the API server.
``telemetry`` counts the answers, and shows them and the book to Prometheus.
"""
