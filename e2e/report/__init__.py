"""The results of runs: a table of cases by clusters, as Markdown and JSON, merged over the runs of one state of the sources.

``verdict_table``   the table and how two runs become one; pure
``pages``           the table as JSON and as Markdown; pure
``sources``         which state of the sources this is
``verdict_files``   reading and writing ``verdicts.json`` and ``verdicts.md``
``verdict_plugin``  pytest's hooks
"""
