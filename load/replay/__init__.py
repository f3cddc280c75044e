"""What a placement policy does to a cluster's utilisation: a trace of pods replayed through the extender's own decisions."""
