"""Program 2: the device plugin of one node.

==============  ==================================================================================================
``main``        the wiring
``grpc_server`` the kubelet's calls; ``registration`` keeps the plugin registered
``allocation``  which container a call is for, which ids, may it start; begin with ``allocation.allocate``
``cards``       the cards and their health; the ids made of them; the Node object
``answer``      the variables and devices that a container gets with its ids
``telemetry``   counters, the real use of pods, ``/metrics``
``unadmitted``  pods that failed admission for a reason that has passed
``node_pods``   the pods of this node, in the order in which a kubelet admits them
``observers``   optional watchers beside the kubelet's calls
==============  ==================================================================================================

Decisions are pure modules; pyproject.toml lists them.
"""
