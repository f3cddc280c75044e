"""The decisions of the extender: no I/O, no clock, no logging."""
