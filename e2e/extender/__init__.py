"""The extender alone and with schedulers: the promises EXT-… and API-… of ``e2e/promises.yaml``, and the original's defects.

Cases ask it over HTTP as a scheduler does, or let a scheduler ask it. ``extender_under_test.py`` has what they share.
"""
