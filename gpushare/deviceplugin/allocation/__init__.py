"""Which container gets which ids, and on the right card: from a kubelet's question to the container's start."""
