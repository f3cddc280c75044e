"""The embedded cluster: a control plane in one Python process.

* ``apiserver`` the API server, in memory, over HTTP;
* ``controllers`` Deployments, ReplicaSets, StatefulSets, DaemonSets, through the API as any client;
* ``scheduler`` and ``scheduling``: calls scheduler extenders exactly as kube-scheduler does;
* ``embedded_control_plane`` puts them together. ``clusters.local_cluster`` adds kubelets and the programs under test.
"""
