"""The embedded API server: the smallest that obeys the same API. Nothing of it knows GPUs, schedulers or kubelets.

* A request walks ``server`` (HTTP and TLS, start and stop) → ``application`` and ``requests`` (ASGI) → ``access`` (the door:
  ``authentication`` with the tokens of ``service_accounts``, then ``authorization``) → ``api_routes`` (which kind, which
  object) → ``api_verbs``, ``subresources``, ``reads``, ``watching``, ``pod_logs`` → ``writes`` (the order of the checks, with
  ``api_admission`` among them) → ``store`` (the state; ``api_snapshot`` keeps it in a file, ``bootstrap`` is what it begins
  with). ``access_reviews`` answers questions about access, ``api_health`` whether the server is well.
* ``representation`` makes what a GET answers into what the client wants to see (``tables``: rows for ``kubectl get``);
  ``field_validation`` looks for unknown fields (``schemas``: the fields of all kinds, as data).
* The server's descriptions of itself: ``discovery``, ``aggregated_discovery``, ``openapi``.
* Pure, one job each: ``api_objects``, ``refusals``, ``shapes``, ``api_quantities``, ``api_selectors``, ``patch``,
  ``strategic_patch``, ``defaults``, ``pod_defaults``, ``field_rules``, ``validation``, ``pod_validation``, ``update_rules``,
  ``pod_update_rules``, ``api_binding``, ``deletion``, ``api_eviction``, ``scale``, ``server_side_apply``, ``service_defaults``,
  ``attributes``, ``rbac_rules``, ``quota``, ``protobuf``; of these rules ``metadata_rules``, ``resource_rules``,
  ``event_rules``, ``label_selectors``, ``times``, ``write_options`` and ``pod_part_defaults`` are parts.
"""
