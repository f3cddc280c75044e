"""The original's device plugin, as recorded: its answers, and the effects of one that guesses.

This package holds only a small stand-in that answers as the Go program does, and the cases that put it in our plugin's place on a
node and take it away again.
"""
