"""A package of this repository that no harness may import in place of its own."""

raise RuntimeError("the harness imported the load of the repository")
