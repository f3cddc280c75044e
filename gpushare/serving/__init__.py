"""The HTTP server of the extender and of the device plugin: sockets, TLS and all connections together (``http_edge``), and the
bytes of one of them (``http_connection``)."""
