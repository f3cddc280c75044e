"""The Kubernetes edge: talk to an API server, and follow what happens there.

Membership rule: knows objects, requests and watches; knows nothing of GPUs. Errors of the HTTP library end here:
callers see ``kube.api_errors``. asyncio only.
"""
