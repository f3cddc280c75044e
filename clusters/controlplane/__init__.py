"""The real etcd, kube-apiserver, kube-controller-manager and kube-scheduler as one more kind of cluster.

``binaries`` finds the programs and ``build`` makes them; ``real_control_plane`` runs them. ``clusters.local_cluster``
puts our kubelet stand-ins, the extender and the plugins around it.
"""
