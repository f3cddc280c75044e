"""The parts of the embedded scheduler.

Pure: ``configuration``, ``pod_fields``, ``node_match``, ``cluster_view``, ``fit``, ``window``, ``wakes``,
``queue``, ``intake``, ``preemption``, ``scheduler_messages``. The others speak HTTP.
"""
