"""Real kubectl against the embedded and the real control plane: the same commands must say the same."""
