"""The parts of the embedded scheduler.

Pure: ``scheduler_quantities``, ``go_durations``, ``scheduler_pod_requests``, ``host_ports``, ``node_state``, ``node_match``,
``scheduler_selectors``, ``fit``, ``fit_error``, ``window``, ``score``, ``wakes``, ``queue``, ``preemption``, ``go_json``,
``scheduler_messages``, ``configuration``. State: ``cluster_view``, ``nominations``, ``intake``. Edges: ``extender_client``,
``scheduler_tls``, ``scheduler_binding``, ``preemptor``, ``reports``, ``informer``. ``cycle`` puts one scheduling cycle
together; ``clusters.embedded.scheduler`` runs them.
"""
