"""What a release is made of: ``python -m clusters.release`` has a verb for each part that needs no registry."""
