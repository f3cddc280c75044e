"""Program 2: the device plugin of one node.

* ``main`` wires the parts together.
* ``grpc_server`` answers the kubelet's calls. ``registration`` keeps the plugin registered, and uses ``folder_watch`` to
  notice a kubelet that starts again.
* ``allocation`` finds the container that a call is for and its ids, and decides whether it may start. Begin with
  ``allocation.allocate``.
* ``cards`` watches the cards and their health, and writes our part of the Node.
* ``core`` has the decisions, which are pure.
* ``checkpoint`` reads the checkpoint of the kubelet's device manager.
* ``former_boot`` ends pods of a former boot of the machine whose status still shows them as running.
* ``stuck_pod_sweeper`` reports pods that failed admission for a reason that has passed, and deletes those that it may.
* ``telemetry`` measures the real use of pods, and serves ``/metrics``.
* ``proto`` has the kubelet's gRPC messages.
"""
