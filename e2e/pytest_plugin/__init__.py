"""The harness as a plugin of pytest, for repositories of others; as a wheel it is ``pytest_gpushare``.

* ``gpu_options`` is what pytest loads: options, markers and the fixtures ``gpu_cluster`` and ``make_gpu_cluster``;
* ``gpu_cluster`` has the cluster as a test sees it, ``gpu_clusters`` makes those with the nodes that a test asks for;
* ``suite_options`` puts the cases of ``e2e`` under these options;
* ``wheel_content`` makes the wheel, in which no module has a name that a folder of others may have.

Nothing but ``gpu_options`` is imported before a test asks for a cluster.
"""
