"""Counters (``extender_metrics``), and the series of these and of the book, with their text (``exposition``)."""
