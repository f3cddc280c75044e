"""The answers of kubectl gpushare: no I/O, no clock, no logging."""
