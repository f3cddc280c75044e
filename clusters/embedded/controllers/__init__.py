"""The small controllers: what makes pods of Deployments and their like, and what goes when its owner goes.

``desired``, ``jobs`` and ``upkeep`` are pure: from the objects to the writes that are due. ``Controllers`` follows the API
server, as any client does, and does it.
"""
