"""The decisions of the device plugin: no I/O, no clock, no logging."""
