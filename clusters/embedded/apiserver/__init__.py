"""The embedded API server: the smallest that obeys the same API. Nothing of it knows GPUs, schedulers or kubelets.

* A request walks ``server`` (HTTP and TLS, start and stop) → ``application`` and ``requests`` (ASGI) → ``authorization`` (the door,
  with ``authentication`` and the tokens of ``service_accounts``) → ``api_routes`` (which kind, which object) →
  ``api_verbs``, ``reads``, ``watching``, ``pod_logs`` → ``writes`` (the order of the checks, with
  ``field_validation``, ``api_admission`` and the policies among them) → ``store`` (the state;
  ``api_snapshot`` keeps it in a file, ``bootstrap`` is what it begins with). ``access_reviews`` answers users about their rights.
* ``tables`` makes what a GET answers into a table for ``kubectl get``.
* The server's descriptions of itself: ``discovery``.
* Pure, one job each: ``api_objects``, ``refusals``, ``api_quantities``, ``api_selectors``, ``options``, ``patch``,
  ``strategic_patch``, ``defaults``, ``pod_defaults``, ``field_rules``, ``validation``, ``pod_validation``, ``update_rules``,
  ``deletion``, ``quota``, ``events``, ``expressions``, ``protobuf``.
"""
