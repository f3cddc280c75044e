"""The cards that were bound, remembered by the pod's uid: later annotations of its author change nothing. Pure.

The first time that the API shows a pod on this node with a valid card, its annotations are those of the Binding. From then on only
two things change what counts: what the plugin itself writes (``expect``, ``confirm``), and the kubelet's records (``correct``).
Whatever else is shown is a difference that is put right (``differences``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gpushare import wire
from gpushare.deviceplugin.core.kept_pods import decoded_from
from gpushare.manifests import Pod
from gpushare.model.allocation import Allocation, encode
from gpushare.model.kept import OURS

Changes = Mapping[str, str | None]

_NUMBERS: Final = (wire.ANNOTATION_DEVICE_UNITS, wire.ANNOTATION_ASSUME_TIME)
# In digits, as ``model.allocation`` reads them.
_LONGEST_NUMBER: Final = 19


class Bindings:
    """By uid: the annotations that count, those that the API shows, and those that a write of ours may have brought."""

    def __init__(self) -> None:
        self._bound: dict[str, dict[str, str]] = {}
        self._shown: dict[str, dict[str, str]] = {}
        self._expected: dict[str, Changes] = {}

    def see(self, pod: Pod) -> dict[str, str]:
        """The API shows the pod, which was cut down; the annotations that count from now on."""
        uid, shown = pod.metadata.uid, pod.metadata.annotations or {}
        self._shown[uid] = shown
        expected = self._expected.get(uid)
        if uid not in self._bound:
            if decoded_from(shown, pod) is not None:
                self._bound[uid] = shown
        elif expected is not None and all(shown.get(name) == text for name, text in expected.items()):
            self._bound[uid] = _merged(self._bound[uid], expected)
            # It has happened. From here on the author alone can have brought a difference.
            del self._expected[uid]
        return self.annotations(uid)

    def annotations(self, uid: str) -> dict[str, str]:
        """The annotations of a pod that count: of one that was never shown with a valid card, those that it has."""
        return self._bound.get(uid, self._shown.get(uid, {}))

    def expect(self, uid: str, changes: Changes) -> None:
        """A write of ours begins. If its answer is lost, the API may show it later."""
        self._expected[uid] = changes

    def give_up(self, uid: str) -> None:
        """The write did not happen."""
        self._expected.pop(uid, None)

    def confirm(self, uid: str) -> None:
        """The write happened."""
        changes = self._expected.pop(uid, None)
        if changes is not None and uid in self._bound:
            self._bound[uid] = _merged(self._bound[uid], changes)

    def correct(self, uid: str, has: Allocation) -> dict[str, str]:
        """By the kubelet's records the pod has these cards, and no repair is under way; the annotations that count from now on."""
        kept = {name: text for name, text in self.annotations(uid).items() if name not in OURS or _stays(name, text)}
        self._bound[uid] = {**encode(has), **kept}
        return self._bound[uid]

    def shown_allocation(self, pod: Pod) -> Allocation | None:
        """The allocation that the API shows of the pod, whatever counts."""
        return decoded_from(self._shown.get(pod.metadata.uid), pod)

    def differences(self, uid: str) -> dict[str, str | None]:
        """The annotations to write so that the API shows what counts; none while a write of ours is under way."""
        bound, shown = self._bound.get(uid), self._shown.get(uid, {})
        if bound is None or uid in self._expected:
            return {}
        return {name: bound.get(name) for name in OURS if bound.get(name) != shown.get(name)}

    def different(self) -> list[str]:
        """The pods that are shown otherwise than bound."""
        return [uid for uid in self._bound if self.differences(uid)]

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        for known in (self._bound, self._shown, self._expected):
            known.pop(uid, None)


def _stays(name: str, text: str) -> bool:
    """Is this one of our annotations that does not name a card, and makes sense?"""
    if name == wire.ANNOTATION_EXTENDER:
        return text == wire.EXTENDER_BOOK
    return name in _NUMBERS and text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER


def _merged(annotations: Mapping[str, str], changes: Changes) -> dict[str, str]:
    merged = {**annotations, **changes}
    return {name: text for name, text in merged.items() if text is not None}
