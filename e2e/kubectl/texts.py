"""The parts of kubectl's output that cannot be equal on two clusters. Nothing else is changed before outputs are compared.

* uids, resource versions, times of day, ages (in columns, and in descriptions; "0s" of a command's own too), the random ends
  of generated names and of events, the hashes of pod templates, addresses of the server, of services and of pods, the time
  in the annotation of the extender, the kubelet's numbers of containers: each becomes a word that names its kind;
* runs of blanks become two: the width of a column depends on its content.
"""

from __future__ import annotations

import re
from typing import Final

_RANDOM: Final = "[bcdfghjklmnpqrstvwxz2456789]"
_RULES: Final = (
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uid>"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
    (r"(resourceVersion\"?: )\"\d+\"", r"\1<version>"),
    (r"(Resource Version: +)\d+", r"\1<version>"),
    # An age stands alone between blanks or in "(5s ago)"; "for 300s" of a toleration is none.
    (r"(?<=[ \t(])(?<!for )(?<!for=)(\d+[ydhms])(\d+[dhms])?(?=[ \t)\n]|$)", "<age>"),
    (r"<age> \(x\d+ over <age>\)", "<age>"),
    (rf"-{_RANDOM}{{6,10}}-{_RANDOM}{{5}}\b", "-<hash>-<random>"),
    (r"^\d+[smhd](?=  )", "<age>"),
    (r"\bsimulated://\d+\b", "simulated://<number>"),
    (r"(ASSUME_TIME\"?: \"?)\d+", r"\1<time>"),
    (r"\.[0-9a-f]{16}\b|\.[0-9a-f]{8}\.\d+\b", ".<random>"),
    (rf"\b(web|made|binpack-1|db|agent)-{_RANDOM}{{6,10}}\b", r"\1-<hash>"),
    (rf"\b(agent)-{_RANDOM}{{5}}\b", r"\1-<random>"),
    (r"https?://127\.0\.0\.1:\d+", "<server>"),
    (r"\b(10|127)\.\d+\.\d+\.\d+\b", "<address>"),
    (rf"(pod-template-hash[=:] ?\"?){_RANDOM}{{6,10}}\b", r"\1<hash>"),
    (r"\bkube-api-access-[a-z0-9]{5}\b", "kube-api-access-<random>"),
    (r"[ \t]{2,}|\t", "  "),
    (r" +$", ""),
)
_COMPILED: Final = tuple((re.compile(pattern, re.MULTILINE), word) for pattern, word in _RULES)


def normalised(text: str) -> str:
    """The output with what is volatile replaced."""
    for pattern, word in _COMPILED:
        text = pattern.sub(word, text)
    return text
