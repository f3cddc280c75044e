"""The embedded cluster: a control plane in one Python process.

* ``apiserver`` the API server, in memory, over HTTP;
* ``controllers`` Deployments, ReplicaSets, StatefulSets, DaemonSets, through the API as any client;
* ``scheduler`` and ``scheduling``: calls scheduler extenders exactly as kube-scheduler does;
* ``provider`` puts it together with kubelets and the programs under test, behind the seam of ``clusters.provider``.
"""
