"""The extender's HTTP.

Paths and their permitted clients (``routes``, ``metrics_routes``), health (``health_routes``), TLS (``edge_tls``).

The server itself is ``gpushare.serving``.
"""
