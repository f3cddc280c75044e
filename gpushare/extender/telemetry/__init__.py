"""Counters (``extender_metrics``), the series of these and of the book (``exposition``), and their text (``scrape``)."""
