"""The small controllers: what makes pods of Deployments, ReplicaSets, StatefulSets and DaemonSets.

``desired`` is pure: from what there is to what should be done. ``Controllers`` follows the API server and does it.
"""
