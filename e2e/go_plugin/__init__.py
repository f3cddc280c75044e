"""The original's device plugin, as recorded: where one comes from, and what one that guesses would do.

What may live here: a small stand-in that speaks as the Go program does, and the cases that put it in our plugin's place on a
node and take it away again.
"""
