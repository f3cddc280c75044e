"""Pods a second that the real kube-scheduler binds, with the extender and without it, and which program takes the time."""
