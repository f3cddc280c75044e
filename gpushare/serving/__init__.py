"""The HTTP server of the extender and of the device plugin: sockets and TLS (``http_edge``), the bytes that all connections hold
together (``connections``), and those of one of them (``http_connection``)."""
