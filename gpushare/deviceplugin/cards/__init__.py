"""What the cards of this node are and how they fare, and what kubelet and API server are told of them."""
