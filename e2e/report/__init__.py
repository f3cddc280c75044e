"""The results of runs: cases by targets on clusters, as HTML, JUnit and JSON, merged over the runs of one state of the sources.

``verdict_table``     the table and how two runs become one; pure
``promise_verdicts``  the verdicts of promises and of columns; pure
``markup``            elements of HTML and XML out of any text; pure
``pages``             the frame of a page, and tables as text; pure
``verdict_page``      the table as one page; pure
``junit_suites``      the table as JUnit XML; pure
``side_by_side``      two reports compared; pure
``repeating``         the command that repeats a case; pure
``sources``           which state of the sources this is
``case_notes``        the notes of cases beyond passing
``evidence``          the parts of a failure, gathered while its case runs
``verdict_files``     reading and writing the files
``verdict_plugin``    pytest's hooks
"""
