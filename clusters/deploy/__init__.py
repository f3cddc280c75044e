"""Manifests as users apply them, and how a provider reads them. Data but for ``render.py``."""
