"""Images of our programs and of the player, made without an image registry (README.md)."""
