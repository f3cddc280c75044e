"""The reports of kubectl inspect: no I/O, no clock, no logging."""
