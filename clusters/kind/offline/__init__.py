"""What is made here where no image registry and no network can be reached; ``--node-image`` and ``--image-base`` replace it."""
