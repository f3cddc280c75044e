"""The effect of a placement policy on a cluster's utilisation: a trace of pods replayed through the extender's own decisions."""
