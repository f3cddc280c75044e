"""Bursts: many pods created and deleted together, while plugins and kubelets restart; in the end everything must be right.

A burst is data that follows from a seed (``burst_plan``); it is played on a cluster (``play``) and judged by what is seen there
(``judge``, pure). ``--bursts 1000`` plays a thousand.
"""
