"""The edges that keep the book true: the watches, the audit, pods that fit again, events about odd pods."""
