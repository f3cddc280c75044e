"""The choice of nodes, of a card, and of pods that must end: pure functions of one moment of the book."""
