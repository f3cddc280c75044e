"""The embedded cluster: a control plane in one Python process.

* API server, pure: ``objects``, ``refusals``, ``routes``, ``shapes``, ``quantities``, ``selectors``, ``patch``,
  ``strategic_patch``, ``defaults``, ``pod_defaults``, ``field_rules``, ``validation``, ``pod_validation``,
  ``update_rules``, ``pod_update_rules``,
  ``binding``, ``deletion``, ``scale``, ``discovery``;
* its state: ``store``; what it does: ``writes`` (create, update, delete), ``verbs``, ``subresources``, ``reads`` (list),
  ``watching``, ``pod_logs``; its edges: ``apiserver`` and ``requests`` (ASGI), ``server`` (the HTTP server, start and stop);
* ``controllers``: ReplicaSets and the like, through the API as any client;
* ``scheduler`` and ``scheduling``: calls scheduler extenders.
"""
