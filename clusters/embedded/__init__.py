"""The embedded cluster: a control plane in one Python process.

* API server, pure: ``objects``, ``refusals``, ``routes``, ``shapes``, ``quantities``, ``selectors``, ``patch``, ``strategic_patch``,
  ``defaults``, ``pod_defaults``, ``validation``, ``pod_validation``, ``update_rules``, ``pod_update_rules``,
  ``binding``, ``deletion``, ``discovery``;
* its state: ``store``; what it does: ``writes`` (create, update, delete), ``pod_subresources``, ``reads`` (list),
  ``watching``, ``logs``; its edges: ``apiserver`` (ASGI), ``server`` (the HTTP server, start and stop);
* ``controllers``: ReplicaSets and the like, through the API as any client;
* ``scheduler`` and ``scheduling``: calls scheduler extenders.
"""
