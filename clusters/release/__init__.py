"""The parts of a release that need no registry, each by a verb of ``python -m clusters.release``."""
