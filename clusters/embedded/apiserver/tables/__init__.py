"""Objects as rows of a table, which is what ``kubectl get`` asks the server for. Nothing in here does I/O.

``columns`` defines a column and has the cells that many kinds share; ``pod_table``, ``node_table``, ``workloads``, ``event_table``,
``core``, ``policy`` are the columns of the kinds; ``registry`` knows them all; ``printed_table`` makes the ``Table`` document.
"""
