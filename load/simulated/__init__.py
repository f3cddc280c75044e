"""An API server in front of a simulated cluster of any size: nodes and pods are made from templates, and nothing runs on them."""
