"""The stand-in kubelet against the cluster's API server, and a small device plugin against the kubelet.

What may live here: cases of what only shows from end to end, named after the node tests of Kubernetes (protocol.md, E1 and
E2) and after what a real kubelet answered (H). Each case has a node of its own, which is gone when the case ends.
"""
