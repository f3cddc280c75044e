"""Real kubelets in containers: the engine that runs them, what is put in them, and the provider of such clusters."""
