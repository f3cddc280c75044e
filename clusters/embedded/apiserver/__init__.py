"""The embedded API server: the smallest that obeys the same API. Nothing of it knows GPUs, schedulers or kubelets.

* A request walks ``server`` (HTTP and TLS, start and stop) → ``application`` and ``requests`` (ASGI) → ``authorization`` (the user
  and its rights, with the tokens of ``service_accounts``) → ``api_routes`` (which kind, which object) → ``api_verbs``, ``reads``
  (lists, watches and logs) → ``writes`` (the order of the checks, with ``field_rules``, ``api_admission`` and the policies among
  them) → ``store`` (the state; ``bootstrap.yaml`` is what it begins with).
* ``tables`` makes what a GET answers into a table for ``kubectl get``.
* ``discovery`` describes the server, and answers users about their rights.
* Pure, one job each: ``api_objects``, ``refusals``, ``api_selectors``, ``patch``, ``defaults``, ``field_rules``, ``validation``,
  ``update_rules``, ``policy_matching``.
"""
