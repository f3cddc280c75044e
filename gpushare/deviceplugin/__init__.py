"""Program 2: the device plugin of one node.

The kubelet's calls walk ``grpc_server`` → ``allocate``, whose docstring says how the right card gets into the right
container: ``admission`` (which container is this for, and which ids: ``candidates``, ``last_guard``, ``devices``), then
``verification`` before a container starts (``repair`` finds what to write where a guess was wrong, ``exchange`` writes
it). What is known comes from ``node_view``: pods from the API, holdings from the kubelet's book (``owner``).
``registration`` keeps the kubelet informed, ``node_status`` the Node object. Decisions are pure modules.
"""
