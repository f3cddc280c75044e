"""Several extenders on one cluster: what keeps two of them from giving one card twice (``node_guard``)."""
