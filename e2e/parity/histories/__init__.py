"""Random histories of API requests, replayed on the embedded and on the real API server: the same answers, the same watches.

* ``operations`` what a history is, as data that can be written down and read again; ``history_samples`` the bodies and selectors
  that histories are made of; ``random_history`` a history from a seed;
* ``history_replay`` runs one history on one side and keeps the answers and the events of the watches;
* ``history_compare`` takes out what may differ between two servers, and finds the first thing that does;
* ``shrink`` makes a history that fails short; ``regressions`` are short ones that once failed, replayed for ever.
"""
