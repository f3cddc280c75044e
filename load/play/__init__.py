"""``python -m load run``: Locust users that play kube-scheduler in front of an extender; ``command.py`` is where it begins."""
