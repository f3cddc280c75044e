"""HTTP: sockets and TLS (``http_edge``, ``tls``), bytes (``http_connection``), paths and who may ask them
(``routes``, ``metrics_routes``, ``health``)."""
