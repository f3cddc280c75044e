"""Programs by other hands that judge the suite: honest ones, and saboteurs (saboteurs.yaml)."""
