"""The extender's HTTP: paths and their permitted clients (``routes``, ``metrics_routes``), health (``health``), TLS (``tls``).

The server itself is ``gpushare.serving``.
"""
