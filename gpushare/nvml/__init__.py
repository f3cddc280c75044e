"""The NVML edge: which cards this machine has, and which processes are on them.

Membership rule: knows NVML and its driver eras; knows nothing of Kubernetes. NVML's own errors end here: callers see
``nvml.api``. Nothing outside this package imports pynvml.
"""
