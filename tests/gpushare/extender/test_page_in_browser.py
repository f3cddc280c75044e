"""The page in a browser: it shows what /inspect says, follows each change, and can be used by keyboard and screen reader.

The rules of accessibility are those of axe-core, whose script is in the distribution of the extra `page`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clusters.api.waiting import eventually
from e2e.browser import CHROMIUM, NO_CHROMIUM, Browser, browser
from gpushare.extender.core.page_history import REFUSED
from tests.gpushare.extender.rig import PAGE, Extender, cards_node, pod, refuse, with_page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
AXE = importlib.util.find_spec("axe_playwright_python")
WITHOUT_SCRIPT = "--blink-settings=scriptEnabled=false"
# JavaScript: by node, the texts of its cards; the names of the nodes; is the page live?
CARDS = (
    "Object.fromEntries([...document.querySelectorAll('#rows tr:not(.detail, .empty)')].map(row => "
    "[row.querySelector('th a').textContent, "
    "[...row.querySelectorAll('.card')].map(card => card.innerText.replace(/\\s+/g, ' '))]))"
)
NAMES = "[...document.querySelectorAll('#rows th[scope=row]')].map(one => one.firstElementChild.textContent)"
VIOLATIONS = (
    "found => found.violations.map(one => [one.id, ...one.nodes.map(node => [node.html, node.failureSummary])])"
)
# How much wider the page is than the window.
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# The words that stand on two lines.
BROKEN_WORDS = """(() => {
  const found = [], all = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (all.nextNode())
    for (const word of all.currentNode.data.matchAll(/[A-Za-z]{2,}/g)) {
      const range = document.createRange();
      range.setStart(all.currentNode, word.index);
      range.setEnd(all.currentNode, word.index + word[0].length);
      const lines = [...range.getClientRects()].filter(one => one.width).map(one => Math.round(one.top));
      if (new Set(lines).size > 1) found.push(word[0]);
    }
  return found;
})()"""
IS_LIVE = "document.getElementById('fresh').className === 'live'"


@contextlib.asynccontextmanager
async def opened(one: Extender, folder: Path, query: str = "", *words: str) -> AsyncIterator[Browser]:
    """A browser that shows the page, once it is live."""
    async with browser(f"{one.url}{PAGE}{query}", folder, *words) as shown:
        if WITHOUT_SCRIPT not in words:
            await eventually(lambda: shown.evaluate(IS_LIVE), bool, "the page is live")
        yield shown


async def becomes(shown: Browser, script: str, expected: object) -> None:
    """Wait until an expression has this value."""
    await eventually(lambda: shown.evaluate(script), lambda found: found == expected, f"{script} is {expected!r}")


async def text(shown: Browser, selector: str) -> str:
    """The text that is seen of an element."""
    return str(await shown.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))


@pytest.mark.parametrize("words", [(), (WITHOUT_SCRIPT,)], ids=["script", "no script"])
async def test_the_cards_are_those_of_inspect(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Each card of each node, booked of whole units, with script and without."""
    async with with_page() as one:
        one.knows(pod("p", 6, "n1", 1))
        one.knows(pod("over", 20, "n1", 0))
        nodes = (await one.http.get("/gpushare-scheduler/inspect")).json()["nodes"]
        async with opened(one, tmp_path, "", *words) as shown:
            cards = await shown.evaluate(CARDS)
            number = await text(shown, "#booked")

    expected = {
        node["name"]: [f"{dev['id']}: {dev['usedGPU']}/{dev['totalGPU']}" for dev in node["devs"]] for node in nodes
    }
    assert {name: [" ".join(card.split()[:2]) for card in of] for name, of in cards.items()} == expected
    assert number == f"{sum(node['usedGPU'] for node in nodes)} GiB"


async def test_a_new_pod_appears_without_a_reload(tmp_path: Path) -> None:
    """On its card, in the numbers, and among those that wait."""
    async with with_page() as one, opened(one, tmp_path) as shown:
        await shown.evaluate("window.before = true")
        assert await text(shown, "#waiting") == "0"
        await shown.evaluate("window.kept = document.querySelectorAll('#rows tr')[1]")
        one.knows(pod("p", 6, "n1", 1))
        await becomes(shown, f"({CARDS}).n1", ["0: 0/14", "1: 6/14"])
        assert await shown.evaluate("window.kept === document.querySelectorAll('#rows tr')[1]"), "it has not changed"
        refuse(one, "waits", 30, "n1", "n2")
        await becomes(shown, "document.getElementById('waiting').textContent", "1")
        assert "d/waits" in await text(shown, "#pods")
        assert "1 node: no GPU of the node is large enough" in await text(shown, "#pods")
        assert "refused" in await text(shown, "#decisions")
        assert await text(shown, "#booked") == "6 GiB"
        one.book.remove_node("n2")
        await becomes(shown, NAMES, ["n1"])
        assert await shown.evaluate("window.before") is True


async def test_unhealthy_and_over_booked_cards_are_marked(tmp_path: Path) -> None:
    """By text in the table and in the list, by a shape in the map; the marks go with their reason."""
    # JavaScript: is there a pixel of this colour within the square of a card on the map?
    has = """(name => (color => { draw(); const pen = document.getElementById('map').getContext('2d');
        return (node, card) => { const place = layout.places.find(one => one.node.name === node);
          const {size} = place, left = place.x + card * (size + place.gap);
          const data = pen.getImageData(left, place.y + place.label, size, size).data;
          const probe = document.createElement('canvas').getContext('2d'); probe.fillStyle = color; probe.fillRect(0, 0, 1, 1);
          const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
          for (let at = 0; at < data.length; at += 4) if (data[at] === r && data[at + 1] === g && data[at + 2] === b) return true;
          return false; }; })(getComputedStyle(document.documentElement).getPropertyValue('--' + name)))"""
    async with with_page() as one, opened(one, tmp_path) as shown:
        one.knows(pod("over", 20, "n1", 0))
        await becomes(shown, CARDS, {"n1": ["0: 20/14 ▲ over-booked", "1: 0/14"], "n2": ["0: 0/10 ✕ unhealthy"]})
        assert (await text(shown, "#attention")).splitlines() == ["n1 card 0: ▲ over-booked", "n2 card 0: ✕ unhealthy"]
        places = [("n1", 0), ("n1", 1), ("n2", 0)]
        for colour, expected in (("mark", [True, False, False]), ("unhealthy", [False, False, True])):
            assert [await shown.evaluate(f"{has}('{colour}')('{node}', {card})") for node, card in places] == expected
        assert "1 unhealthy and 1 over-booked" in await shown.evaluate(
            "document.getElementById('map').getAttribute('aria-label')"
        )

        one.knows(cards_node("n2", 10, unhealthy=(0,), reason="lost"))
        await becomes(shown, "document.getElementById('attention').innerText.includes('✕ unhealthy: lost')", True)

        one.knows(cards_node("n2", 10))
        await becomes(shown, f"({CARDS}).n2", ["0: 0/10"])
        assert await text(shown, "#attention") == "n1 card 0: ▲ over-booked"


async def test_search_and_filters_are_in_the_address(tmp_path: Path) -> None:
    """As they are typed, so that the address can be sent to a colleague; back leads back."""
    async with with_page() as one, opened(one, tmp_path) as shown:
        await shown.click("#q")
        await shown.call("Input.insertText", text="p4")
        await becomes(shown, NAMES, ["n2"])
        assert await shown.evaluate("location.search") == "?q=p4"
        await becomes(shown, "document.getElementById('notice').textContent", "1 of 2 nodes; 3 cards in all")
        await becomes(shown, "layout.places.map(one => one.node.name)", ["n2"])
        await shown.evaluate("show.value = 'full'; show.dispatchEvent(new Event('input', {bubbles: true}))")
        assert await shown.evaluate("location.search") == "?q=p4&show=full"
        await becomes(shown, "document.querySelectorAll('#rows .empty').length", 0)
        await shown.evaluate("document.querySelector('#attention a').click()")
        assert await shown.evaluate("[location.search, q.value, show.value]") == ["?q=n2", "n2", "all"]
        await shown.evaluate("history.back()")
        await becomes(shown, "[location.search, q.value, show.value]", ["?q=p4&show=full", "p4", "full"])
        await becomes(shown, NAMES, ["n2"])


async def press(shown: Browser, key: str, code: int) -> None:
    """A key goes down and up."""
    words = {"text": "\r"} if key == "Enter" else {}
    for kind in ("keyDown", "keyUp"):
        await shown.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **words)


async def test_the_keyboard_reaches_the_pods_of_a_node(tmp_path: Path) -> None:
    """Tab to the node, Enter opens it, and the focus stays there while the node changes."""
    async with with_page() as one, opened(one, tmp_path) as shown:
        one.knows(pod("p", 6, "n1", 1))
        await becomes(shown, f"({CARDS}).n1", ["0: 0/14", "1: 6/14"])
        for _ in range(40):
            await press(shown, "Tab", 9)
            if await shown.evaluate("document.activeElement.dataset.node") == "n1":
                break
        await press(shown, "Enter", 13)
        details = "document.querySelector('.detail')?.innerText"
        await becomes(shown, details, "card 0, 0 of 14 units: no pod\ncard 1, 6 of 14 units: d/p (6)")
        one.knows(pod("q", 2, "n1", 0))
        await becomes(shown, details, "card 0, 2 of 14 units: d/q (2)\ncard 1, 6 of 14 units: d/p (6)")
        assert await shown.evaluate("document.activeElement.dataset.node") == "n1"
        await press(shown, "Enter", 13)
        assert await shown.evaluate("document.querySelectorAll('.detail').length") == 0


@pytest.mark.skipif(AXE is None, reason="axe-core is not there: install the extra `page`")
@pytest.mark.parametrize("has_script", [True, False])
async def test_the_page_keeps_the_rules_of_accessibility(tmp_path: Path, has_script: bool) -> None:
    """Those of axe-core, on a page that shows all that it can show, light and dark, wide and narrow.

    Without script axe-core cannot run either, so it judges what the server wrote, without its script.
    """
    assert AXE is not None
    assert AXE.origin is not None
    axe = (Path(AXE.origin).parent / "axe.min.js").read_text()
    async with with_page() as one:
        one.knows(pod("over", 20, "n1", 0))
        refuse(one, "waits", 30, "n1", "n2")
        one.knows(cards_node("n3", *[10] * 8, model="NVIDIA H100 80GB HBM3"))
        one.knows(cards_node("ip-10-0-0-1.eu-central-1.compute.internal", 10))
        refuse(one, "training-with-a-long-name-7d9c8b6f5-x2x4z", 30, "n1", "n2")
        written = tmp_path / "page.html"
        written.write_text(re.sub("<script>.*</script>", "", (await one.http.get(PAGE)).text, flags=re.DOTALL))
        async with browser(f"{one.url}{PAGE}" if has_script else written.as_uri(), tmp_path) as shown:
            if has_script:
                await becomes(shown, IS_LIVE, True)
                await shown.evaluate("document.querySelector('[data-node=n1]').click()")
                await becomes(shown, "document.querySelectorAll('.detail li').length", 2)
            await shown.evaluate("document.querySelector('details').open = true")
            await shown.evaluate(axe)
            for scheme, width in itertools.product(("light", "dark"), (1400, 360)):
                size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
                await shown.call("Emulation.setDeviceMetricsOverride", **size)
                await shown.colours(scheme)
                assert await shown.evaluate(f"axe.run().then({VIOLATIONS})") == [], (scheme, width)
                assert await shown.evaluate(OVERFLOW) == 0, width
                assert await shown.evaluate(BROKEN_WORDS) == [], width


async def test_a_silent_extender_is_seen(tmp_path: Path) -> None:
    """Old data is named as such, in the text and to a screen reader; the next message ends that."""
    async with with_page() as one, opened(one, tmp_path) as shown:
        await shown.evaluate("heard -= 30000; tick()")
        assert (await text(shown, "#fresh")).startswith("No message from the extender for 3")
        assert (await text(shown, "#notice")).startswith("No message from the extender for 3")
        one.knows(pod("p", 6, "n1", 1))
        await becomes(shown, IS_LIVE, True)
        assert await text(shown, "#notice") == "The page is live again"


async def test_a_page_that_lost_its_connection_comes_back(tmp_path: Path) -> None:
    """The browser connects again by itself, and the page reads all again: it may be another extender."""
    async with with_page() as one, opened(one, tmp_path) as shown:
        for member in one.page.viewers:
            member.abort()
        one.knows(cards_node("n3", 4))
        one.page.document.version += 100
        await becomes(shown, NAMES, ["n1", "n2", "n3"])
        one.knows(pod("p", 6, "n1", 1))
        await becomes(shown, f"({CARDS}).n1", ["0: 0/14", "1: 6/14"])


async def test_thousands_of_nodes_make_no_larger_page(tmp_path: Path) -> None:
    """One page of the table, and a map on which each node is one square."""
    async with with_page() as one:
        for number in range(2000):
            one.knows(cards_node(f"m{number:04}", *[14] * 8))
        async with opened(one, tmp_path) as shown:
            await becomes(shown, "layout?.places.length", 2002)
            assert await shown.evaluate("[layout.isByNode, layout.height <= 560]") == [True, True]
            assert await text(shown, "#grain") == "node"
            assert await shown.evaluate("document.querySelectorAll('#rows tr').length") == 50
            assert await shown.evaluate("document.querySelectorAll('*').length < 4000")
            assert await text(shown, "#pages") == "page 1 of 41 next"
            await shown.click("#pages [rel=next]")
            await becomes(shown, "document.getElementById('pages').innerText", "previous page 2 of 41 next")


async def test_texts_of_others_are_no_markup(tmp_path: Path) -> None:
    """A reason that quotes a pod's author is text, also as the script writes it."""
    evil = "<img src=x onerror='window.evil = true'>"
    async with with_page() as one, opened(one, tmp_path) as shown:
        one.verbs.decisions.note(1, REFUSED, "ns", "p", evil)
        await becomes(shown, f"document.getElementById('decisions').innerText.includes({json.dumps(evil)})", True)
        assert await shown.evaluate("[document.querySelectorAll('img').length, window.evil === undefined]") == [0, True]
