"""The findings of a rule, and the judgement of a history by rules. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from e2e.checkers import UnknownError
from e2e.checkers.history import Entry, State


@dataclass(frozen=True, slots=True, repr=False)
class Finding:
    """One thing that is wrong: against which rule, when it was first seen, and on which pod (``namespace/name``), node and card."""

    rule: str
    at: float
    text: str
    pod: str = ""
    node: str = ""
    card: int | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for the same trouble at another time: that of a card stays, although pods and numbers change."""
        return (
            (self.rule, self.node, self.card) if self.card is not None else (self.rule, self.pod, self.node, self.text)
        )

    def __repr__(self) -> str:
        """One line."""
        card = "" if self.card is None else f"card {self.card}"
        place = " of ".join(filter(None, (card, self.node)))
        subject = ", ".join(filter(None, (self.pod, place)))
        return f"{self.at:.1f} s, {': '.join(filter(None, (self.rule, subject, self.text)))}"

    __str__ = __repr__


Rule = Callable[[State, Entry], Iterable[Finding]]


class Judge:
    """Takes entry after entry; ``findings`` are those of all rules, each once."""

    def __init__(self, *rules: Rule) -> None:
        self.state = State()
        self.findings: list[Finding] = []
        self._rules = rules
        self._known: set[tuple[object, ...]] = set()

    def take(self, entry: Entry) -> None:
        """The next entry. Raises UnknownError if a rule fails in itself."""
        self.state.take(entry)
        for rule in self._rules:
            try:
                found = list(rule(self.state, entry))
            except Exception as error:
                name = getattr(rule, "__name__", str(rule))
                raise UnknownError(f"the rule {name} failed at {entry.at:.1f} s: {error!r}") from error
            for one in found:
                if one.key not in self._known:
                    self._known.add(one.key)
                    self.findings.append(one)

    def forgive(self, finding: Finding) -> None:
        """Let a finding count as not seen yet."""
        self._known.discard(finding.key)

    def about(self, namespace: str, nodes: Collection[str] = ()) -> list[Finding]:
        """The findings about pods of the namespace, about nodes (those that its pods have used, and these), or about neither."""
        used = self.state.used[namespace].union(nodes)
        return [
            one
            for one in self.findings
            if one.pod.startswith(f"{namespace}/") or one.node in used or not (one.pod or one.node)
        ]


def judge(entries: Iterable[Entry], *rules: Rule, namespace: str = "", nodes: Collection[str] = ()) -> list[Finding]:
    """The findings of these rules in a history: all, or those about one namespace and its nodes. Raises UnknownError."""
    judge = Judge(*rules)
    for entry in entries:
        judge.take(entry)
    return judge.about(namespace, nodes) if namespace else judge.findings
