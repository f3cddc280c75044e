"""Program 2: the device plugin of one node.

==============  ==================================================================================================
``main``        the wiring
``grpc_server`` the kubelet's calls; ``registration`` keeps the kubelet informed of us
``allocation``  whose call is this, which ids, may the container start; ``allocation.allocate`` tells the story
``cards``       what the cards are and how they fare; the ids made of them; the Node object
``answer``      what a container is told with its ids
``telemetry``   what is counted, what pods really use, ``/metrics``
``unadmitted``  pods that failed admission for a reason that has passed
``node_pods``   the pods of this node, in the order in which a kubelet admits them
``observers``   what looks on beside the kubelet's calls, and is started only where it is asked for
==============  ==================================================================================================

Decisions are pure modules; pyproject.toml lists them.
"""
