"""gpushare-setup: makes kube-scheduler of a control plane node ask the extender, takes that back, and plans a migration.

``core`` decides what a node is, what is wrong and what changes. ``node_files`` reads and replaces files, ``journal`` makes that
undoable, ``running_scheduler`` waits for kube-scheduler, ``cluster_objects`` looks at what is installed, ``main`` has the verbs.
A migration is decided from the cluster's nodes and pods alone, in ``core.migration``.
"""
