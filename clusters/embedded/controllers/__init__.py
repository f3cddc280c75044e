"""The small controllers: what makes pods of Deployments and their like, and what goes when its owner goes.

``desired`` is pure: from what there is to what should be done. ``Controllers`` follows the API server, as any client
does, and does it.
"""
