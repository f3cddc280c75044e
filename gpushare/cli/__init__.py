"""Command lines: ``flags`` how a flag is declared; ``settings``, ``plugin_flags`` and ``kubectl_flags`` those of programs;
``completion`` the end of a line; ``answer_forms`` the tables and documents of an answer.
"""
