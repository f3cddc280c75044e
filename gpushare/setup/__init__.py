"""gpushare-setup: makes kube-scheduler of a control plane node ask the extender, and takes that back.

``core`` decides what a node is, what is wrong and what changes. ``node_files`` reads and replaces files, ``journal`` makes that
undoable, ``running_scheduler`` waits for kube-scheduler, ``cluster_objects`` looks at what is installed, ``main`` has the verbs.
"""
