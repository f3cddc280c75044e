"""A kubelet without containers: real device-plugin gRPC, a real Node object, real pod statuses, simulated processes.

This package holds only the behaviour of a kubelet towards device plugins (``plugin_client``, ``device_manager`` around
the pure ``kubelet_devices``), towards monitoring (``kubelet.PodResources``, ``log_endpoint``), towards the API server
(``kubelet_node_status``, ``kubelet_pods``, ``pod_status``), and the stand-in for a container runtime (``runtime``). It works
against any API server and judges any device plugin, so it imports no product code.
"""
