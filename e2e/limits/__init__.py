"""The driver limits containers to their share of a card: which limits there are, and how they are reported."""
