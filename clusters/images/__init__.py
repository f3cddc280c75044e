"""Simulated containers: one YAML file for each image, and the code that reads them (README.md)."""
