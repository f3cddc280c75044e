"""Program 1: the scheduler extender.

* ``main`` wires the parts together.
* ``edge`` serves HTTP: the paths, the clients that each is open to, and TLS.
* ``verbs`` answers the questions of kube-scheduler: it decodes the body, decides, encodes the answer and logs one line.
* ``bind`` chooses a card and binds the pod to its node; with ``--guarded`` it reserves the card in the node's guard first
  (``node_guard``).
* ``core`` has the ``book``, and the decisions, which are pure: nodes, scores, victims, explanations.
* ``follow`` keeps the book true: watches of the API server, the audit, pods that fit again, events about odd pods.
* ``telemetry`` counts the answers, and shows the counters and the book to Prometheus.
"""
