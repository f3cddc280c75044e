"""Our errors, one tree: NVML's are in ``nvml.api``, the API server's in ``kube.api_errors``.

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
