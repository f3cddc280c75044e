"""The kubelet's gRPC messages. ``*_pb2*`` are generated from the ``.proto`` beside them: ``make generate``."""
