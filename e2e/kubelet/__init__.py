"""The stand-in kubelet against the cluster's API server, and a small device plugin against the kubelet.

This package holds only cases that show from end to end, named after the node tests of Kubernetes and after *What a real
kubelet does with a device plugin* in e2e/README.md. Each case has a node of its own, which is gone when the case ends.
"""
