"""The parts of the embedded scheduler.

Pure: ``quantities``, ``durations``, ``pod_requests``, ``host_ports``, ``node_state``, ``node_match``, ``selectors``, ``fit``,
``fit_error``, ``window``, ``score``, ``wakes``, ``queue``, ``preemption``, ``go_json``, ``messages``, ``configuration``. State:
``cluster_view``, ``nominations``, ``intake``. Edges: ``extender_client``, ``tls``, ``binding``, ``preemptor``, ``reports``,
``informer``. ``cycle`` puts one scheduling cycle together; ``clusters.embedded.scheduler`` runs them.
"""
