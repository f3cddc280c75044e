"""The results of runs: cases by columns, as HTML and JSON. JUnit is pytest's own (``--junit-xml``).

A run of cases has targets on clusters as columns, and is merged over the runs of one state of the sources. A validation has the
nodes of one site as columns, and what the site was like.

``verdict_table``   the table, and how two runs become one; pure
``verdicts``        the verdicts of promises, of columns and of validations; pure
``markup``          elements of HTML out of any text, and tables as text; pure
``verdict_page``    the table as one page; pure
``side_by_side``    two tables compared; pure
``compatibility``   rows of docs/compatibility.md; pure
``repeating``       the command that repeats a case; pure
``sources``         which state of the sources this is
``case_notes``      the notes of cases beyond passing
``evidence``        the parts of a failure, gathered while its case runs
``verdict_files``   reading and writing the files
``verdict_plugin``  pytest's hooks
``report_verbs``    ``python -m e2e report`` and ``compare``
"""
