"""gpushare: pods share one NVIDIA card by asking for an amount of its memory.

The map of this package, from the bottom up (arrows of import go down only, ``make check`` holds them):

* ``wire`` every name that another program can see; ``errors`` the tree of our errors;
* ``model`` the nouns: quantity, device, pod, allocation, node, placement. Pure;
* ``kube`` the Kubernetes edge (knows nothing of GPUs), ``nvml`` the NVML edge (knows nothing of Kubernetes);
* ``settings`` flags and environment of each program, ``logs`` one log format;
* ``extender``, ``deviceplugin``, ``kubectl_inspect``: the programs. They do not know each other.
"""

__version__ = "0.1.0"
