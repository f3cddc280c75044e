"""``kubectl inspect gpushare``: which pod has which card.

Membership rule: ask the API server once (``main``), then pure functions from objects to facts (``card_report``) and
from facts to text (``report_text``). The text is the original's to the byte, because people parse it.
"""
