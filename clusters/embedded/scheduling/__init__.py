"""The parts of the embedded scheduler.

Pure: ``configuration``, ``pod_fields``, ``node_match``, ``cluster_view``, ``fit``, ``window``, ``queue``, ``preemption``. The
others speak HTTP.
"""
