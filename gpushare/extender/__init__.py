"""Program 1: the scheduler extender.

A request goes through ``edge`` (bytes, rights of the caller) → ``verbs`` (decode, decide, encode; ``messages``) → ``decisions``
(pure: nodes, card, victims) or ``bind``, over the ``book``, which follows the API server.
``telemetry`` counts the answers, and shows them and the book to Prometheus.
"""
