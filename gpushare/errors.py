"""Our errors, one tree::

    GpushareError
    ├── UsageError             flags or environment that make no sense; exit code 2
    ├── InvalidQuantityError   a text that is no Kubernetes quantity, or no whole number of units
    ├── InvalidAllocationError annotations that do not say a card and an amount
    ├── InvalidWishError       an annotation by which a pod wishes for a card, and that cannot be read
    ├── DoesNotFitError        no card of the node holds the request
    ├── NoCandidateError       no pod of the node is waiting for what the kubelet asks
    ├── TooManyIdsError        a device list that a kubelet would refuse or choke on
    ├── nvml.nvml_errors      NvmlError and below
    └── kube.api_errors       ApiError and below

Foreign exceptions never cross an edge: they are the ``__cause__``. Each edge maps this tree to its own language
(HTTP answer, gRPC status, exit code) in one function.
"""

from __future__ import annotations


class GpushareError(Exception):
    """Base of every error that is raised on purpose; its text names the cause, the place and what to do."""


class UsageError(GpushareError):
    """Flags or environment that make no sense; programs exit with code 2."""


class InvalidQuantityError(GpushareError):
    """A text that is no Kubernetes quantity, or a quantity if only whole units make sense."""


class InvalidAllocationError(GpushareError):
    """Annotations that do not say a card and an amount."""


class InvalidWishError(GpushareError):
    """An annotation by which a pod wishes for a card, and that cannot be read; the text is the reason for the scheduler."""


class DoesNotFitError(GpushareError):
    """No card of the node holds the request; the text is the reason for the scheduler."""


class NoCandidateError(GpushareError):
    """No pod of the node is waiting for what the kubelet asks."""


class TooManyIdsError(GpushareError):
    """A device list that a kubelet would refuse (4 MiB) or choke on (thousands of ids)."""
