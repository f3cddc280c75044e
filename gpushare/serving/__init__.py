"""The HTTP server of the extender and of the device plugin: sockets (``http_edge``), what all connections hold together
(``connections``), and the bytes of one of them (``http_connection``)."""
