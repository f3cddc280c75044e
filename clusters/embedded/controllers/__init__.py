"""The small controllers: what makes pods of Deployments, ReplicaSets, StatefulSets and DaemonSets, and what goes when its owner goes.

``desired`` and ``garbage`` are pure: from what there is to what should be done. ``Controllers`` follows the API server, as any
client does, and does it.
"""
