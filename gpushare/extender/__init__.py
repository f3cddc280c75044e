"""Program 1: the scheduler extender.

* ``main`` wires the parts together.
* ``routes`` has the HTTP paths and the clients that each is open to; ``gpushare.serving`` is the server.
* ``verbs`` answers the questions of kube-scheduler: it decodes the body, decides, encodes the answer and logs one line.
* ``bind`` chooses a card and binds the pod to its node; with ``--guarded`` it reserves the card in the node's guard first
  (``node_guard``).
* ``core`` has the ``book``, and the decisions, which are pure: nodes, scores, victims, explanations.
* ``live_page`` serves the page and keeps it up to date.
* ``follow`` keeps the book true: watches of the API server, the audit, pods that fit again, events about odd pods.
* ``extender_metrics`` counts the answers, and ``exposition`` shows the counters and the book to Prometheus.
"""
