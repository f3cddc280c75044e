"""The results of runs: cases by columns, as HTML and JSON. JUnit is pytest's own (``--junit-xml``).

A run of cases has targets on clusters as columns, and is merged over the runs of one state of the sources. A validation has the
nodes of one site as columns, and what the site was like.
"""
