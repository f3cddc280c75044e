"""The extender's HTTP: paths and their permitted clients (``routes``, ``metrics_routes``), and TLS (``edge_tls``).

The server itself is ``gpushare.serving``.
"""
