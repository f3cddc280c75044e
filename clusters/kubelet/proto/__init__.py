"""The kubelet's gRPC interfaces: the ``.proto`` files, the messages that ``generate.py`` makes of them, and their services."""
