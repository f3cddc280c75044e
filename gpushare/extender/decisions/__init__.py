"""Which nodes, which card, whose end: pure functions of a moment of the book."""
