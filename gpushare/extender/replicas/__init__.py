"""Several extenders on one cluster: what keeps two of them from one card, whoever binds (``guard``)."""
