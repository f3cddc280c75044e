"""How the harness talks to an API server, real or ours, and what every kind of cluster asks of one."""
