"""Program 2: the device plugin of one node.

=====================  ===========================================================================================
``main``               the wiring
``grpc_server``        the kubelet's calls; ``registration`` keeps the plugin registered
``allocation``         which container a call is for, which ids, may it start; begin with ``allocation.allocate``
``cards``              the cards and their health; the Node object
``core``               the decisions, all pure
``telemetry``          the real use of pods, ``/metrics``
``stuck_pod_sweeper``  pods that failed admission for a reason that has passed
=====================  ===========================================================================================
"""
