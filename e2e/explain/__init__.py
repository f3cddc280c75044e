"""``kubectl gpushare``: its answers are what then happens."""
