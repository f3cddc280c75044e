"""Program 2: the device plugin of one node.

* ``main`` wires the parts together.
* ``takeover`` deals with what other plugins, other units and other boots have left behind, before the plugin serves.
* ``grpc_server`` answers the kubelet's calls, and keeps the plugin registered.
* ``allocation`` finds the container that a call is for and its ids, and decides whether it may start. Begin with
  ``allocation.allocate``.
* ``card_watch`` watches the cards and their health; ``node_status`` writes our part of the Node.
* ``core`` has the decisions, which are pure.
* ``kubelet_records`` reads which container has which ids.
* ``stuck_pod_sweeper`` reports pods that failed admission for a reason that has passed, and deletes those that it may.
* ``usage_watch`` measures the real use of pods, and evicts those that go on to use too much.
* ``limit_watch`` has the driver limit containers to their share, and looks whether the limits are in force.
* ``metrics_exposition`` serves ``/metrics``.
* ``proto`` has the kubelet's gRPC messages.
"""
