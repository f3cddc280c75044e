"""The real etcd, kube-apiserver, kube-controller-manager and kube-scheduler as one more kind of cluster.

``binaries`` finds the programs and ``build`` makes them; ``control_plane`` runs them; ``provider`` is the cluster
behind the seam: our kubelet stand-ins, the extender and the plugins against the real API server.
"""
