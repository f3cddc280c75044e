"""The error of commands about a site."""


class SiteError(Exception):
    """The cluster or machine could not be looked at; the text has what, and what to do."""
