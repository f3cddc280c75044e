"""The kubelet's gRPC interfaces: the ``.proto`` files, and the stubs that ``generate.py`` makes of them."""
