"""``python -m load run``: Locust users that play kube-scheduler in front of an extender; begin with ``run_command.py``."""
