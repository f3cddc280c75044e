"""Pods a second that the real kube-scheduler binds, with the extender and without it, and where the time goes."""
