"""Decisions about simulated cards: the records of the state file, what a call answers, and what a change leaves.

Membership rule: values in, values out; no file, clock or process.
"""
