"""The report of a site's validation, for machines, for CI and for a change board.

``site_verdict``    passed, failed or incomplete, and why; pure
``html_page``       the report as one page without scripts; pure
``site_junit``      the report as JUnit XML; pure
``site_sides``      two reports as sides of a comparison; pure
``compatibility``   rows of docs/compatibility.md; pure
``report_files``    the report as JSON; reading and writing the files of a report
``report_verbs``    ``python -m e2e report`` and ``compare``, for the runs of cases, too
"""
