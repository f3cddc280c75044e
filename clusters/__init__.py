"""The clusters on which the programs run: several kinds behind one interface.

* ``provider`` is the interface of a cluster, and ``providers`` lists the kinds. ``targets`` has the programs under test, as data.
* ``local_cluster`` puts kubelet stand-ins and the programs under test around a control plane.
* ``embedded`` is our own API server, controllers and scheduler, in one process. ``controlplane`` is the real control plane.
* ``kind`` runs real kubelets in containers.
* ``kubelet`` is the stand-in kubelet, which speaks the real device-plugin gRPC and works with any API server.
* ``simulated_node`` has the simulated cards of a node and the device plugin on them. ``images`` has the behaviour of simulated
  containers, and ``simulated`` has clusters as data.
* ``api`` talks to an API server, real or ours. ``amounts`` reads the amounts that Kubernetes writes.
* ``deploy`` has the manifests. ``demo`` does the main job step by step.
* ``processes`` starts, watches and ends programs. ``clock`` is the time of a cluster. ``kubeconfig_copy`` writes the kubeconfig
  that a user asks for.

No module of this package imports ``gpushare``: the same cluster must be able to run the original's programs.
"""
