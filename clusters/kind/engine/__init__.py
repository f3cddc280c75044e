"""The engine below the nodes: the Docker that runs them, the rules that keep their packets here, and the program kind."""
