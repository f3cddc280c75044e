"""The report of a site's validation, for machines, for CI and for a change board.

``site_verdict``    passed, failed or incomplete, and why; pure
``markup``          elements of HTML and XML out of any text; pure
``html_page``       the report as one page without scripts; pure
``junit``           the report as JUnit XML; pure
``comparison``      two reports side by side; pure
``compatibility``   rows of docs/compatibility.md; pure
``report_files``    the report as JSON; reading and writing the files of a report
``report_verbs``    ``python -m e2e report`` and ``compare``
"""
