"""The stand-in kubelet against the cluster's API server, and a small device plugin against the kubelet.

This package holds only cases that show from end to end, named after the node tests of Kubernetes (protocol.md, E1 and
E2) and after the answers of a real kubelet (H). Each case has a node of its own, which is gone when the case ends.
"""
