"""HTTP: sockets and TLS (``http_edge``, ``tls``), bytes (``http_connection``), what stands where and for whom
(``routes``, ``metrics_routes``, ``health``)."""
