"""The parts of the embedded scheduler.

Pure: ``quantities``, ``durations``, ``pod_requests``, ``node_match``, ``fit``, ``fit_error``, ``window``, ``score``,
``wakes``, ``queue``, ``messages``, ``configuration``. State: ``cluster_view``, ``intake``. Edges:
``extender_client``, ``tls``, ``binding``, ``reports``, ``informer``. ``cycle`` puts one scheduling cycle together;
``clusters.embedded.scheduler`` runs them.
"""
