"""``kubectl gpushare``: why a pod waits, which card it has, and where another would land.

Membership rule: read the API server once (``cluster_reading``), then pure functions: from objects to the state of the cluster
(``core.cluster_state``), to an answer for programs (``core.explanation``, ``core.simulation``), to text (``core.answer_text``).
The decisions are the extender's own core; its program is not asked.
"""
