"""``make bench``: the extender beside a server that does nothing, in one run and asked in turn; begin with ``__main__``."""
