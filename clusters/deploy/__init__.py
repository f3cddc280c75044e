"""Manifests as users apply them, and ``render.py``, with which a provider reads them."""
