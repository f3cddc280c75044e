"""``kubectl inspect gpushare`` prints what the original printed, to the byte."""
