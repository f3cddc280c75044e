"""The namespace of a validation, its labels, and the PriorityClass of its pods."""

from __future__ import annotations

from typing import Final

NAMESPACE: Final = "gpushare-validation"
PRIORITY_CLASS: Final = "gpushare-validation"
# On all that a run makes, with its id.
RUN_LABEL: Final = "gpushare-validation/run"
# On a namespace that the administrator has made; any value.
KEEP: Final = "gpushare-validation/keep"
