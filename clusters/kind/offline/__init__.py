"""Images that are built here because no image registry can be reached; ``--node-image`` and ``--image-base`` replace them."""
