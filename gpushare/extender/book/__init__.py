"""The book: nodes, cards and their pods (``cache``, fed by ``controller``), and the pods that wait (``verdicts``, ``wake``)."""
