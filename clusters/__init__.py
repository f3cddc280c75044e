"""Where it runs: kinds of cluster behind one seam.

* ``provider`` the seam (``Cluster``) and what a provider is given; ``targets`` the programs under test, as data;
* ``embedded`` our own API server, controllers and scheduler, in one process; ``kubelet`` the stand-in kubelet, which
  speaks the real device-plugin gRPC and serves any API server;
* ``api_client`` and ``resources``: how all of these talk to an API server, real or ours;
* ``deploy`` manifests, ``simulated`` clusters as data, ``images`` what a simulated image does.

Nothing here imports ``gpushare``: the same cluster must be able to run the original's programs.
"""
