"""The columns of the tables that ``kubectl get`` asks the server for: ``columns`` are cells that many kinds share. No I/O."""
