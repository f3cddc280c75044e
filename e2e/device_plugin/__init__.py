"""The device plugin alone, as a process, over a kubelet that records its calls and makes those that a case wants.

``catalogue.yaml`` lists the promises by their ids (DP-…, PR-…) and the tests that prove them, here and elsewhere.
"""
