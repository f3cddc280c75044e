"""A folder for PYTHONPATH: what lies here runs when an interpreter starts (``fake-nvml exec``)."""
