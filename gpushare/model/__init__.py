"""The nouns: facts about cards and pods, and what follows from them.

Membership rule: pure functions and immutable values only. No I/O, no clock, no logging, no threads, no environment;
what varies comes in as a parameter. Anything here may be called from any program at any time.
"""
