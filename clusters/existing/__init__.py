"""A cluster that is not ours: reached by a kubeconfig, used through its API server alone."""
