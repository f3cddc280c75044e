"""Cases for any cluster that shares cards, ours or not: through its API server, in one namespace, within limits."""
