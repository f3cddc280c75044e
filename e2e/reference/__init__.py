"""Programs by other hands that judge the suite: honest ones, and faulty implementations (faulty_implementations.yaml)."""
