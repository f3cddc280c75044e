"""The namespace of a validation, and its labels."""

from __future__ import annotations

from typing import Final

NAMESPACE: Final = "gpushare-validation"
# On the namespace and on each pod, with the id of the run.
RUN_LABEL: Final = "gpushare-validation/run"
# On a namespace that the administrator has made; any value.
KEEP: Final = "gpushare-validation/keep"
