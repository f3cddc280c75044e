"""The device plugin alone, as a process, over a kubelet that writes down what it is told and asks what a case wants.

``catalogue.yaml`` lists the promises by their ids (DP-…, PR-…) and the tests that prove them, here and elsewhere.
"""
