"""The embedded cluster: a control plane in one Python process.

It serves what our programs, our cases, the kubectl commands of our pages and the workloads of users send, in JSON unless
another form is named:

* of each kind of ``README.md``: POST, GET, PUT and DELETE, with ``dryRun``, ``fieldValidation``, preconditions and a grace;
  PATCH as JSON patch, merge patch or strategic merge patch (our programs and kubelets send strategic ones);
* lists by labels, by the fields of ``api_selectors``, in pages; DELETE of a collection; watches with
  bookmarks and with initial events (``kubectl rollout status`` asks for them); tables for ``kubectl get``;
* ``status`` (GET, PUT, PATCH), ``binding``, ``eviction``, ``token`` (POST), ``scale`` (GET, PUT, PATCH), ``log`` (GET) and,
  for our own controllers, ``finalize`` (PUT);
* SelfSubjectAccessReview and SelfSubjectReview; these, TokenRequest, Eviction and Namespace in protobuf, too, as kubectl's
  ``auth``, ``create token``, ``drain`` and ``create namespace`` know no other form;
* discovery, the OpenAPI that kubectl reads before it sends a manifest, ``/version`` and the health checks.

Its parts:

* ``apiserver`` the API server, in memory, over HTTP;
* ``controllers`` Deployments, ReplicaSets, StatefulSets, DaemonSets, through the API as any client;
* ``scheduler`` and ``scheduling``: calls scheduler extenders exactly as kube-scheduler does;
* ``embedded_control_plane`` puts them together. ``clusters.local_cluster`` adds kubelets and the programs under test.
"""
