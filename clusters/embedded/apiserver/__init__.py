"""The embedded API server: the smallest that obeys the same API. Nothing of it knows GPUs, schedulers or kubelets.

* A request walks ``server`` (the HTTP server, start and stop) → ``application`` and ``requests`` (ASGI) → ``routes``
  (which kind, which
  object) → ``verbs``, ``subresources``, ``reads``, ``watching``, ``pod_logs`` → ``writes`` (the order of the checks)
  → ``store`` (the state).
* Pure, each by itself: ``objects``, ``refusals``, ``shapes``, ``quantities``, ``selectors``, ``patch``,
  ``strategic_patch``, ``defaults``,
  ``pod_defaults``, ``field_rules``, ``validation``, ``pod_validation``, ``update_rules``, ``pod_update_rules``,
  ``binding``, ``deletion``, ``scale``, ``discovery``.
"""
