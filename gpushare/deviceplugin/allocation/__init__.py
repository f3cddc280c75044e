"""Whose ids are these, and are they on the right card: from a kubelet's question to the container's start."""
