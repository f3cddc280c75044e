"""The text of the page: fragments of HTML by the name of their place in ``page.html``. Pure.

Its script asks for the page again if something has changed, and takes the fragments that differ. No fragment has a style of its
own: the page's policy allows none. An age has the time that it is counted from beside it, so that the script lets it pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final, NamedTuple
from urllib.parse import parse_qs, quote, urlencode

from gpushare.extender.core.messages import encode_json
from gpushare.extender.core.page_document import (
    NO_SLOT,
    OVER_BOOKED,
    OVERUSED,
    UNHEALTHY,
    UNLIMITED,
    Card,
    Entry,
    PageDocument,
    Row,
    WaitingPod,
)
from gpushare.extender.core.page_history import Point
from gpushare.model.limits import LOOSE, NONE
from gpushare.model.quantity import MIB_PER_GIB

ROWS_OF_A_PAGE: Final = 50
# Marked nodes that are listed one by one.
MOST_MARKED: Final = 10
SHOWN: Final = {"all": "all nodes", "attention": "needs attention", "free": "has room", "full": "full"}
SORTED: Final = {"name": "by name", "free": "largest block first", "booked": "most booked first"}
_MARKS: Final = {
    UNHEALTHY: ("unhealthy", "✕ unhealthy"),
    OVER_BOOKED: ("over", "▲ over-booked"),
    NO_SLOT: ("slotless", "■ no free slot"),
    OVERUSED: ("overused", "▲ overused"),
    UNLIMITED: ("unlimited", "△ not limited"),
}
_LIMITS: Final = {NONE: "has no memory limit", LOOSE: "has a memory limit above its share"}
_BAR: Final = 40


class View(NamedTuple):
    """The choice of nodes, as the page's address has it."""

    q: str = ""
    show: str = "all"
    sort: str = "name"
    page: int = 1

    def link(self, page: int) -> str:
        """The address of another page of the same."""
        fields = zip(self._fields, self._replace(page=page), View(), strict=True)
        return f"ui?{urlencode({name: given for name, given, default in fields if given != default})}"


def view_of(query: str) -> View:
    """The view that an address asks for; a value that makes no sense counts as not given."""
    given = parse_qs(query)
    words, show, sort, page = (given.get(name, [""])[-1] for name in View._fields)
    number = int(page) if page.isascii() and page.isdigit() and len(page) < 6 else 1
    return View(
        words.strip()[:253], show if show in SHOWN else "all", sort if sort in SORTED else "name", max(number, 1)
    )


def chosen(document: PageDocument, view: View) -> list[Entry]:
    """The nodes of a view, in its order."""
    entries = document.rows.entries()
    words = view.q.lower().split()
    if words:
        models = [model.lower() for model in document.rows.models]
        # With each word the models that have it.
        looked_for = [(word, {at for at, model in enumerate(models) if word in model}) for word in words]
        entries = [one for one in entries if _has(one, looked_for)]
    match view.show:
        case "attention":
            entries = [one for one in entries if one.needs_attention]
        case "free":
            entries = [one for one in entries if one.sums.largest]
        case "full":
            entries = [one for one in entries if not one.sums.largest]
    match view.sort:
        case "free":
            entries.sort(key=lambda one: -one.sums.largest)
        case "booked":
            entries.sort(key=lambda one: -one.sums.booked / max(one.sums.total, 1))
    return entries


def _has(entry: Entry, looked_for: Sequence[tuple[str, set[int]]]) -> bool:
    name, models, pods = entry.row.name, entry.models, entry.pods
    return all(word in name or word in pods or not models.isdisjoint(having) for word, having in looked_for)


def fragments(document: PageDocument, view: View) -> dict[str, str]:
    """All of the page by the name of the place, as ``page.html`` has them."""
    nodes = chosen(document, view)
    pages = max(-(-len(nodes) // ROWS_OF_A_PAGE), 1)
    page = min(view.page, pages)
    shown = nodes[(page - 1) * ROWS_OF_A_PAGE : page * ROWS_OF_A_PAGE]
    is_all = view._replace(page=1) == View()
    sums = document.sums
    return {
        "fresh": freshness(document),
        "booked": amount(sums.booked),
        "booked-note": f"{percent(sums.booked, sums.total)} of {amount(sums.total)}",
        "free": amount(sums.free),
        "free-note": f"{percent(sums.free, sums.total)}, on healthy cards",
        "largest": amount(sums.largest),
        "largest-note": f"on {escape(sums.largest_on)}" if sums.largest_on else "no card has room",
        "waiting": str(document.waiting_count),
        "waiting-note": "pods that ask for a card and have no node",
        "q": escape(view.q),
        "show": _options(SHOWN, view.show),
        "sort": _options(SORTED, view.sort),
        "attention": "".join(_attention(document)),
        "count": f"{len(nodes):,} of {sums.nodes:,} nodes; {sums.cards:,} cards in all",
        # The nodes of the map, if these are not all, in their order.
        "found": "" if is_all else escape(encode_json([one.row.name for one in nodes]).decode()),
        "nodes": "".join(_node(one, document.rows.models) for one in shown) or _empty(4, "No node is like that."),
        "pages": _pages(view, page, pages),
        "pods": "".join(_pod(one, document.now) for one in document.waiting) or _empty(2, "No pod waits for a card."),
        "pods-more": f"{more} more wait" if (more := document.waiting_count - len(document.waiting)) else "",
        "decisions": "".join(
            f"<tr><td>{_age(at, document.now)}{_first(times, first, document.now)}</td>"
            f'<td class="{outcome.replace(" ", "-")}">{outcome}</td>'
            f"<td>{escape(namespace)}/{escape(name)}<small>{escape(detail)}</small></td></tr>"
            for at, outcome, namespace, name, detail, times, first in document.decisions
        )
        or _empty(3, "No decision since the extender started."),
        "hour": "".join(_point(one, document.now) for one in reversed(document.points)) or _empty(6, "No minute yet."),
        "program": escape(f"gpushare {document.facts.program}, policy {document.facts.policy}"),
    }


def _first(times: int, at: float, now: float) -> str:
    """How often the same came, and when first."""
    return f"<small>{times} times, first {_age(at, now)}</small>" if times > 1 else ""


def _age(at: float, now: float) -> str:
    return f'<span data-at="{at}">{ago(now - at)}</span>'


def freshness(document: PageDocument) -> str:
    """How old this is: it is as old as the last answer of the API server about nodes or pods."""
    if not document.facts.is_ready:
        return "The extender has not read the cluster yet."
    contacts = document.facts.contacts
    ages = [f"{name} {_age(at, document.now)}" for name in ("nodes", "pods") if (at := contacts.get(name)) is not None]
    return f"The API server last answered about {', about '.join(ages)}"


def amount(mib: int) -> str:
    """Memory for people: rounded to a tenth of a GiB or TiB."""
    size, word = (MIB_PER_GIB, "GiB") if mib < 10_000 * MIB_PER_GIB else (MIB_PER_GIB * MIB_PER_GIB, "TiB")
    whole, tenth = divmod((mib * 10 + size // 2) // size, 10)
    return f"{whole:,}.{tenth} {word}" if tenth else f"{whole:,} {word}"


def percent(part: int, whole: int) -> str:
    """Rounded down, as ``kubectl inspect gpushare`` has it."""
    return f"{part * 100 // whole if whole else 0}%"


def ago(seconds: float) -> str:
    """How long ago something was, in the largest unit that is not 0."""
    whole = max(int(seconds), 0)
    for size, word in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if whole >= size:
            return f"{whole // size} {word} ago"
    return f"{whole} s ago"


def _options(texts: Mapping[str, str], chosen_one: str) -> str:
    return "".join(
        f'<option value="{name}"{" selected" if name == chosen_one else ""}>{text}</option>'
        for name, text in texts.items()
    )


def _attention(document: PageDocument) -> Iterator[str]:
    marked = [one for one in document.rows.entries() if one.needs_attention]
    for entry in marked[:MOST_MARKED]:
        row = entry.row
        texts = [
            f"card {card.number}: {mark}{_because(document, row.name, card)}"
            for card in row.each_card()
            if (mark := _words(card, UNHEALTHY | OVER_BOOKED))
        ]
        texts += _overuses(row)
        texts += [row.refusal] * bool(row.refusal)
        texts += [f"{row.unplaced} units of pods on no card of it"] * bool(row.unplaced)
        texts += [*_left(row), *_limits(row)]
        yield f'<li><a href="{escape(View(row.name).link(1))}">{escape(row.name)}</a> {escape("; ".join(texts))}</li>'
    if len(marked) > MOST_MARKED:
        yield f'<li><a href="ui?show=attention">{len(marked) - MOST_MARKED} more nodes</a></li>'
    if not marked:
        yield "<li>Every card is healthy, and none is over-booked.</li>"


def _overuses(row: Row) -> list[str]:
    return [
        f"card {one.card}: {one.namespace}/{one.name} uses {one.used} MiB and booked {one.booked} MiB"
        for one in row.overusers
    ]


def _left(row: Row) -> list[str]:
    return [] if row.left is None else [f"kube-scheduler has {row.left} units left in sum"]


def _limits(row: Row) -> list[str]:
    condition, pods = row.limits
    texts = [condition] * bool(condition)
    texts += (f"card {one.card}: {one.namespace}/{one.name} {_LIMITS[one.state]}" for one in pods)
    return texts


def _words(card: Card, of: int) -> str:
    return ", ".join(text for mark, (_, text) in _MARKS.items() if card.marks & of & mark)


def _because(document: PageDocument, node: str, card: Card) -> str:
    """Why a card is unhealthy, behind its mark."""
    reason = document.rows.reasons.get(node, {}).get(card.number)
    return f": {reason}" if reason else ""


def _node(entry: Entry, models: Sequence[str]) -> str:
    row, sums, name = entry.row, entry.sums, escape(entry.row.name)
    link = f'<a href="inspect/{escape(quote(row.name, safe=""))}" data-node="{name}">{name}</a>'
    cards = [*row.each_card()]
    names = ", ".join(dict.fromkeys(models[card.model] for card in cards if models[card.model])) or "not published"
    notes = [f"<b>{escape(row.refusal)}</b>"] * bool(row.refusal)
    notes += [f"<b>{row.unplaced} units on no card</b>"] * bool(row.unplaced)
    notes += [f"<b>{escape(text)}</b>" for text in (*_left(row), *_overuses(row), *_limits(row))]
    return (
        f'<tr><th scope="row">{link}<small>{escape(names)}, in {row.unit}</small>{"".join(notes)}</th>'
        f'<td><ul class="cards">{"".join(map(_card, cards))}</ul></td>'
        f"<td>{amount(sums.booked)}<small>{percent(sums.booked, sums.total)} of {amount(sums.total)}</small></td>"
        f"<td>{amount(sums.largest)}</td></tr>"
    )


def _card(card: Card) -> str:
    classes = " ".join(["card", *(name for mark, (name, _) in _MARKS.items() if card.marks & mark)])
    width = min(card.used * _BAR // card.total, _BAR) if card.total else 0
    words = _words(card, UNHEALTHY | OVER_BOOKED | NO_SLOT | OVERUSED | UNLIMITED)
    return (
        f'<li class="{classes}"><svg viewBox="0 0 {_BAR} 6" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="whole" width="{_BAR}" height="6"/>'
        f'<rect class="used" width="{width}" height="6"/></svg>'
        f"<span><i>{card.number}:</i> {card.used}/{card.total}</span>{f'<b>{words}</b>' if words else ''}</li>"
    )


def _pages(view: View, page: int, pages: int) -> str:
    if pages == 1:
        return ""
    before = f'<a href="{escape(view.link(page - 1))}" rel="prev">previous</a> ' if page > 1 else ""
    after = f' <a href="{escape(view.link(page + 1))}" rel="next">next</a>' if page < pages else ""
    return f"{before}page {page} of {pages}{after}"


def _pod(pod: WaitingPod, now: float) -> str:
    path = escape(f"explain/{quote(pod.namespace, safe='')}/{quote(pod.name, safe='')}")
    reasons = [
        f"{count} {'node' if count == 1 else 'nodes'}: {escape(reason)}" for reason, count in pod.reasons.items()
    ] or [escape(": ".join(filter(None, (pod.reason, pod.message))))]
    facts = [f"{pod.units} units", *([] if pod.since is None else [f"created {_age(pod.since, now)}"])]
    facts.append(f"asked for {pod.times} {'time' if pod.times == 1 else 'times'}" if pod.times else "never asked for")
    facts += [f"scheduler {escape(pod.scheduler)}"] if pod.scheduler else []
    name = f"{escape(pod.namespace)}/{escape(pod.name)}"
    # The extender explains only what it was asked for.
    title = f'<a href="{path}">{name}</a>' if pod.times else name
    return (
        f'<tr><th scope="row">{title}<small>{", ".join(facts)}</small></th>'
        f"<td><ul>{''.join(f'<li>{one}</li>' for one in reasons)}</ul></td></tr>"
    )


def _point(point: Point, now: float) -> str:
    return (
        f"<tr><td>{_age(point.at, now)}</td><td>{amount(point.booked)}</td><td>{amount(point.free)}</td>"
        f"<td>{amount(point.largest)}</td><td>{point.waiting}</td><td>{point.bound}</td></tr>"
    )


def _empty(columns: int, text: str) -> str:
    return f'<tr class="empty"><td colspan="{columns}">{text}</td></tr>'
