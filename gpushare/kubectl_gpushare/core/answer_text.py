"""The answers as text for people: tables as kubectl prints them, and one line for each fact. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from gpushare import wire
from gpushare.cli.answer_forms import age, counted, printable, table
from gpushare.cli.kubectl_flags import qualified
from gpushare.extender.core.explain import CARD_UNHEALTHY
from gpushare.kubectl_gpushare.core.explanation import (
    ANOTHER_EXTENDER,
    COPIED,
    GPUSHARE,
    NODE_NAME,
    PLUGIN,
    STATIC,
    UNKNOWN,
)
from gpushare.kubectl_gpushare.core.node_rules import SHORT
from gpushare.model.limits import ENFORCED

# Nodes of an explanation, unless all that are described are asked for.
_NODES: Final = 20
_CARD_BY: Final = {
    PLUGIN: "the device plugin chose its card, as the extender was not asked",
    UNKNOWN: "the extender chose its card if that scheduler asks it, else the device plugin",
    COPIED: "its annotations are older than the pod: they were copied",
    "": "no annotation names a card",
}
_CARDS: Final = ("NODE", "CARD", "MODEL", "FREE", "TOTAL", "WANTED", "REASON", "ROOM IF ENDED")
_HELD: Final = ("NODE", "CARD", "MODEL", "HELD", "FREE WITHOUT IT", "TOTAL", "SHARED WITH")


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """A line for each fact that is there."""
    shown = [(f"{name}:", printable(str(value))) for name, value in pairs if value not in ("", None, [])]
    width = max((len(name) for name, _ in shown), default=0) + 1
    return "".join(f"{name.ljust(width)}{value}\n" for name, value in shown)


def with_ages(answer: dict[str, Any], now: float) -> dict[str, Any]:
    """The answer with the age of each of its events in place of the time; ``now`` is in seconds since 1970."""
    events = [one | {"when": age(one["when"], now)} for one in answer.get("events", ())]
    return answer | {"events": events} if events else answer


def explanation_text(answer: dict[str, Any], *, wide: bool = False, headers: bool = True) -> str:
    """The text of ``explain``."""
    title = [*_owner_facts(answer, wide), *_pod_facts(answer)]
    cards = _held_cards if "boundBy" in answer else _waiting_cards
    return facts(title) + _causes(answer) + cards(answer, wide, headers) + _events(answer)


def explanation_names(answer: dict[str, Any]) -> str:
    """The object that is explained, as kubectl takes names."""
    owner = answer.get("owner")
    return f"{qualified(owner['kind'])}/{owner['name']}\n" if owner else f"pod/{answer['pod']['name']}\n"


def _pod_facts(answer: dict[str, Any]) -> list[tuple[str, object]]:
    if "pod" not in answer:
        return []
    pod = answer["pod"]
    found = [("Pod", f"{pod['namespace']}/{pod['name']}"), ("State", _state(answer)), ("Asks for", _request(answer))]
    if "node" in answer:
        return [*found, *_bound_facts(answer)]
    said = map(answer.get("scheduler", {}).get, ("reason", "message"))
    return [
        *found,
        ("Scheduler", ": ".join(filter(None, said))),
        ("Not judged", ", ".join(answer.get("notJudged", ()))),
    ]


def _owner_facts(answer: dict[str, Any], wide: bool) -> list[tuple[str, object]]:
    """An object that makes pods: how many it has, and each; the next lines are about one of them."""
    if "owner" not in answer:
        return []
    owner, pods = answer["owner"], answer["pods"]
    has = "all its pods" if owner["there"] >= owner["wanted"] else "not all its pods"
    state = f"has {has}: {owner['there']} of {owner['wanted']}"
    if owner["ended"]:
        state = f"has ended: {owner['ended']}"
    shown = pods if wide else pods[:_NODES]
    each = ", ".join(f"{one['name']} ({one['node'] or one['state']})" for one in shown)
    more = f", and {len(pods) - len(shown)} more" if len(pods) > len(shown) else ""
    return [(owner["kind"], f"{owner['namespace']}/{owner['name']}"), ("State", state), ("Pods", each + more)]


def _state(answer: dict[str, Any]) -> str:
    if "node" in answer:
        cards = [card["id"] for card in answer.get("cards", ()) if card["held"]]
        if not cards and not answer.get("request", {"units": 1})["units"]:
            return f"is on node {answer['node']}, and asks for no card memory"
        held = f"has card {', '.join(map(str, cards))}" if cards else "has no card"
        return f"{held} of node {answer['node']}"
    if "nodes" in answer:
        return "waits"
    why = f" ({answer['why']})" if answer.get("why") else ""
    return f"has {'failed' if answer.get('phase') == 'Failed' else 'ended'}{why}; its cards are free"


def _request(answer: dict[str, Any]) -> str:
    if "request" not in answer:
        return ""
    request = answer["request"]
    wishes = [f"{name.rpartition('/')[2]}={_flat(value)}" for name, value in request["wishes"].items()]
    parts = [
        counted(request["units"], "unit") if request["units"] else "no card memory",
        f"policy {request['policy']}",
        f"priority {request['priority']}",
        *wishes,
    ]
    return ", ".join(parts)


def _flat(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _bound_facts(answer: dict[str, Any]) -> list[tuple[str, object]]:
    started = "yes" if answer.get("started") else "no; the kubelet has not reported a container of it"
    if answer.get("lingers"):
        started = "its phase has ended, but its status still shows running containers, so it keeps its card"
    chosen = ", ".join(map(str, answer.get("policyWouldChoose", ())))
    return [
        ("Bound by", _binder(answer)),
        ("Bound at", answer.get("boundAt")),
        ("Started", started if "started" in answer else ""),
        ("Policy now", f"without the pod it would choose card {chosen} of this node" if chosen else ""),
        ("Problem", answer.get("problem")),
    ]


def _binder(answer: dict[str, Any]) -> str:
    by, scheduler = answer.get("boundBy", ""), answer.get("scheduler", "")
    if by == GPUSHARE:
        return f"the extender of gpushare, asked by {scheduler or 'a scheduler'}"
    if by == ANOTHER_EXTENDER:
        return f"{by}, asked by {scheduler}" if scheduler else by
    by = {NODE_NAME: "no scheduler: nodeName was set at its creation", STATIC: "its kubelet: it is a static pod"}.get(
        by, f"the scheduler {by}" if by else "a scheduler that is not known"
    )
    return f"{by}; {_CARD_BY[answer.get('cardBy', '')]}"


def _causes(answer: dict[str, Any]) -> str:
    lines: list[str] = []
    for cause in answer.get("causes", ()):
        nodes = ""
        if "examples" in cause:
            examples = ", ".join(cause["examples"])
            rest = ", …" if cause["nodes"] > len(cause["examples"]) else ""
            nodes = f" ({cause['nodes']} node{'s' * (cause['nodes'] > 1)}{f': {examples}{rest}' if examples else ''})"
        lines.append(f"  {cause['kind']}: {cause['means']}{nodes}\n")
        lines += [f"      {printable(cause['message'])}\n"] if cause.get("message") else []
        lines.append(f"      → {cause['do']}\n")
    return "".join(["\nWhy:\n", *lines]) if lines else ""


def _waiting_cards(answer: dict[str, Any], wide: bool, headers: bool) -> str:
    nodes: Sequence[dict[str, Any]] = answer.get("nodes", ())
    shown = nodes if wide else nodes[:_NODES]
    rows = [_card_row(node, card, wide) for node in shown for card in node["cards"]]
    header = (*_CARDS, "UUID") if wide else _CARDS
    left_out = len(nodes) - len(shown) + answer.get("nodesLeftOut", 0)
    more = f"({counted(left_out, 'more node')}{'' if wide else '; -o wide shows up to 200'})\n" if left_out else ""
    cards = table(header, rows, headers=headers)
    return f"\n{cards}{more}" if cards else more


def _card_row(node: dict[str, Any], card: dict[str, Any], wide: bool) -> list[object]:
    ended = ", ".join(f"{one['namespace']}/{one['name']} ({one['units']})" for one in card.get("roomIfEnded", ()))
    amounts = (card[name] for name in ("free", "total", "wanted"))
    cells = [node["name"], card["id"], card["model"] or "-", *amounts, _reason(node, card), ended or "-"]
    return [*cells, card["uuid"] or "-"] if wide else cells


def _reason(node: dict[str, Any], card: dict[str, Any]) -> str:
    """The cause to remove first. An unhealthy card stays one after the node's rule is satisfied, so it comes before it.

    kube-scheduler's sum of our resources lacks that card, too, and is no cause of its own.
    """
    if card["reason"] != CARD_UNHEALTHY:
        return node["rule"] or card["reason"] or node["reason"] or "takes it"
    rules = [one for one in node["rule"].split(", ") if not one.startswith(f"{SHORT}{wire.RESOURCE_PREFIX}")]
    return "; ".join(filter(None, [CARD_UNHEALTHY, ", ".join(rules)]))


def _held_cards(answer: dict[str, Any], wide: bool, headers: bool) -> str:
    rows: list[list[object]] = []
    for card in answer.get("cards", ()):
        others = ", ".join(f"{one['namespace']}/{one['name']} ({one['units']})" for one in card["sharedWith"])
        cells = (answer["node"], card["id"], card["model"] or "-", card["held"], card["freeWithoutIt"], card["total"])
        rows.append([*cells, others or "-", *([card["uuid"] or "-"] if wide else [])])
    cards = table((*_HELD, "UUID") if wide else _HELD, rows, headers=headers)
    return f"\n{cards}" if cards else ""


def _events(answer: dict[str, Any]) -> str:
    rows = [[one["when"] or "-", one["reason"], one["count"], one["message"]] for one in answer.get("events", ())]
    events = table(("LAST SEEN", "REASON", "COUNT", "MESSAGE"), rows)
    return f"\n{events}" if events else ""


def simulation_text(answer: dict[str, Any], *, wide: bool = False, headers: bool = True) -> str:
    """The text of ``simulate``: a block for each object of the manifest."""
    rest = facts([("Without pods", ", ".join(answer.get("passedOver", ())))])
    return "\n".join([*(_workload(one, wide, headers) for one in answer["workloads"]), *([rest] if rest else [])])


def simulation_names(answer: dict[str, Any]) -> str:
    """The nodes on which pods would land, each once."""
    names = dict.fromkeys(place["node"] for one in answer["workloads"] for place in one.get("placements", ()))
    return "".join(f"node/{name}\n" for name in names)


def _workload(answer: dict[str, Any], wide: bool, headers: bool) -> str:
    title = facts(
        [
            ("Object", answer["object"]),
            ("Asks for", _request(answer)),
            ("Placed", f"{answer['placed']} of {answer['replicas']}"),
            ("Note", answer["note"]),
            ("Fit until full", f"{answer['fits']}"),
            ("Not judged", ", ".join(answer.get("notJudged", ()))),
        ]
    )
    models = [
        [one["model"] or "-", one["unit"] or "-", one["cards"], one["fits"], one["largest"]]
        for one in answer.get("models", ())
    ]
    placements: Sequence[dict[str, Any]] = answer.get("placements", ())
    shown = placements if wide else placements[:_NODES]
    rows = [[one["node"], _flat([card["id"] for card in one["cards"]]) or "-", one["pods"]] for one in shown]
    more = len(placements) - len(shown)
    tables = (
        table(("MODEL", "UNIT", "CARDS", "FIT", "LARGEST POD"), models, headers=headers),
        table(("NODE", "CARD", "PODS"), rows, headers=headers)
        + (f"({counted(more, 'more place')}; -o wide shows them)\n" if more else ""),
    )
    return title + _causes(answer) + "".join(f"\n{one}" for one in tables if one)


def diagnosis_text(answer: dict[str, Any], **_: bool) -> str:
    """The text of ``doctor``, which has one form."""
    lines = [f"{printable(one['what'])}\n  → {one['do']}\n" for one in answer["findings"]]
    return "".join(lines) or "good: nothing that can be seen is wrong\n"


def events_text(answer: dict[str, Any], *, headers: bool = True, **_: bool) -> str:
    """The text of ``events``, which is never wider."""
    rows = [
        [one["when"] or "-", one["namespace"] or "-", one["object"], one["reason"], one["count"], one["message"]]
        for one in answer["events"]
    ]
    return table(("LAST SEEN", "NAMESPACE", "OBJECT", "REASON", "COUNT", "MESSAGE"), rows, headers=headers)


def events_names(answer: dict[str, Any]) -> str:
    """The objects that have events, each once."""
    return "".join(f"{name}\n" for name in dict.fromkeys(one["object"] for one in answer["events"]))


def top_text(answer: dict[str, Any], things: str, *, headers: bool = True, **_: bool) -> str:
    """The text of ``top``, of nodes or of pods; what is not known is a dash."""
    if things == "nodes":
        rows = [
            [one["name"], *_amounts(one), _mib(one["total"]), one["pods"], one["healthy"] or "-"]
            for one in answer["nodes"]
        ]
        return table(("NODE", "BOOKED", "USED", "USED%", "TOTAL", "PODS", "HEALTHY"), rows, headers=headers)
    pods = sorted(answer["pods"], key=lambda one: (one["namespace"], one["name"], one["card"]))
    limits = ["LIMIT"] if any(one["limitState"] for one in pods) else []
    rows = []
    for one in pods:
        booked, *used = _amounts(one)
        limit = _mib(one["limit"]) if one["limitState"] in ("", ENFORCED) else one["limitState"]
        on = [one["namespace"], one["name"], one["node"], one["card"], booked]
        rows.append([*on, *([limit] if limits else []), *used, _mib(one["overuse"])])
    names = ("NAMESPACE", "NAME", "NODE", "CARD", "BOOKED", *limits, "USED", "USED%", "OVERUSE")
    return table(names, rows, headers=headers)


def top_names(answer: dict[str, Any], things: str) -> str:
    """The nodes, or the pods, each once."""
    prefix = things.removesuffix("s")
    return "".join(f"{name}\n" for name in dict.fromkeys(f"{prefix}/{one['name']}" for one in answer[things]))


def _amounts(one: dict[str, Any]) -> list[str]:
    booked, used = one["booked"], one["used"]
    share = f"{used * 100 // booked}%" if booked and used is not None else "-"
    return [_mib(booked), _mib(used), share]


def _mib(amount: int | None) -> str:
    return "-" if amount is None else f"{amount // 1024**2}Mi"
