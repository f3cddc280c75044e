"""What is known: nodes, cards and who has them (``cache``, fed by ``controller``), and who waits (``verdicts``, ``wake``)."""
