"""The cards of this node and their health, and how kubelet and API server learn of them."""
