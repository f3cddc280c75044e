"""gpushare: pods share one NVIDIA card by asking for an amount of its memory.

The map of this package, from the bottom up (arrows of import go down only, ``make check`` holds them):

* ``wire`` every name that another program can see; ``errors`` the tree of our errors; ``manifests`` the objects of Kubernetes
  with the fields that are read; ``bounds`` how large anything from outside may be;
* ``model`` the nouns: quantity, pod, allocation, node and its devices, placement. Pure;
* ``kube`` the Kubernetes edge (knows nothing of GPUs), ``nvml`` the NVML edge (knows nothing of Kubernetes);
* ``cli`` the flags of the programs, their completion, the forms of their answers; ``logs`` one log format;
* ``serving`` the HTTP server of the programs;
* ``extender``, ``deviceplugin``, ``kubectl_inspect``, ``setup``: the programs. They do not know each other;
* ``kubectl_gpushare`` explains and simulates with the extender's core.
"""

__version__ = "0.2.0"
