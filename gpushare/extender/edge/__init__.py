"""HTTP: sockets and TLS (``http_edge``, ``tls``), bytes (``http_connection``), paths and their permitted clients
(``routes``, ``metrics_routes``, ``health``)."""
