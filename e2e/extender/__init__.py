"""The extender alone and with schedulers: the promises EXT-… and API-… (``catalogue.yaml``), and the original's defects.

Cases ask it over HTTP as a scheduler does, or let a scheduler ask it. ``stage.py`` has what they share.
"""
