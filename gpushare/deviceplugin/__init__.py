"""Program 2: the device plugin of one node.

The kubelet's calls walk ``grpc_server`` → ``allocate`` → ``candidates`` (which container is this for) and ``devices``
(which ids); ``registration`` keeps the kubelet informed, ``node_status`` the Node object. ``candidates`` and
``devices`` are pure.
"""
