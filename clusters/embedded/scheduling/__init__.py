"""The parts of the embedded scheduler.

Pure: ``configuration``, ``pod_fields``, ``cluster_view``, ``fit``, ``queue``, ``preemption``. The
others speak HTTP.
"""
