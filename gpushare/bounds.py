"""How much of anything from outside is taken: one table, with the reason beside each number.

Everything that a pod's author, a node, another program or a stranger can make large is held to one of these. Each reader asks
``exceeded`` before it does work that grows with the input, and refuses with the bound's own text.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Bound(NamedTuple):
    """At most ``most`` ``unit`` of ``what``; ``0`` is a valid amount."""

    what: str
    most: int
    unit: str

    def exceeded(self, amount: int) -> bool:
        """Is this more than is taken?"""
        return amount > self.most

    @property
    def refusal(self) -> str:
        """Why more is refused. Constant, so that the scheduler can count it over nodes."""
        return f"{self.what} is limited to {self.most} {self.unit}"


# Values of log lines come from callers too. There is room for a dozen of the longest names that Kubernetes allows.
LOG_LINE_CHARACTERS: Final = Bound("a log line", 4096, "characters")
# Lines that wait while standard error is not read: some thousand, a second of a busy extender.
LOG_BYTES_HELD: Final = Bound("the log that waits to be written", 1 << 20, "bytes")
# A request's line and headers together; Go's client sends some hundred bytes.
HEAD_BYTES: Final = Bound("the line and the headers of a request", 64 * 1024, "bytes")
# 15,000 nodes of 12 kB in full, as a scheduler without node cache sends them.
BODY_BYTES: Final = Bound("the body of a request", 192 * 1024 * 1024, "bytes")
# A caller without a certificate is refused anyway; it reads why if its question has an ordinary size.
BODY_BYTES_OF_STRANGERS: Final = Bound("the body of a request without a client certificate", 1024 * 1024, "bytes")
# Requests that a client sends before it has read the answers; Go's client and curl send none.
REQUESTS_AHEAD: Final = Bound("the number of requests ahead of their answers", 16, "requests")
# Bodies on their way in and answers on their way out, of all connections: one of the largest. While that one is answered it takes
# four times its size, and the shipped manifests give the extender 1 GiB.
BYTES_IN_FLIGHT: Final = Bound("all bodies and answers on their way", 192 * 1024 * 1024, "bytes")
# A scheduler has some dozen; one over TLS takes about 100 KiB.
CONNECTIONS: Final = Bound("the number of connections", 1024, "connections")
# Prometheus has one or two, and a kubelet one for its probes. A scrape of 40,000 cards is 25 MB.
METRICS_CONNECTIONS: Final = Bound("the number of connections to the metrics", 32, "connections")
METRICS_BYTES_IN_FLIGHT: Final = Bound("all scrapes on their way", 64 * 1024 * 1024, "bytes")
# Open pages that get each change; a person has one or two.
VIEWERS: Final = Bound("the number of open pages", 16, "pages")
# Kubernetes goes to 5,000 nodes, some providers to 65,000, of which a scheduler asks about a twentieth.
NODES_OF_A_QUESTION: Final = Bound("the number of nodes of a question", 20_000, "nodes")
# A question without its nodes and victims in full: as many names as are allowed, and a pod as large as the API server takes one.
QUESTION_BYTES: Final = Bound("a question, without its nodes or victims in full,", 4 * 1024 * 1024, "bytes")
# Such a one takes 50 times as long to read as another: some hundred milliseconds, in which no other question is answered.
DEEP_QUESTION_BYTES: Final = Bound("a question that is nested too deeply for the parser", 1024 * 1024, "bytes")
# Commas say how many values there are, before any of them takes memory. A full node has some 300, a full pod 200; a scheduler
# proposes victims on a tenth of the nodes.
VALUES_OF_NODES: Final = Bound("a question with its nodes in full", 8_000_000, "values")
VALUES_OF_VICTIMS: Final = Bound("a question with its victims in full", 2_000_000, "values")
# 110 pods on each of 500 nodes, which a scheduler proposes at 5,000.
VICTIMS_OF_A_QUESTION: Final = Bound("the number of victims of a question", 100_000, "pods")
# Three names and a uid, of some hundred characters each.
BINDING_BYTES: Final = Bound("the order to bind", 64 * 1024, "bytes")
# Each is looked at for each answer. A node has 110 pods by default.
CONTAINERS_OF_A_POD: Final = Bound("the number of containers of a pod", 1024, "containers")
# The longest name that Kubernetes allows (RFC 1123), which is longer than a namespace or a uid. These are kept as keys, and logged.
NAME_CHARACTERS: Final = Bound("the name, the namespace or the uid of a pod", 253, "characters")
# The last answers to schedulers, by which a waiting pod is explained: some thousand nodes for each of some hundred pods.
ANSWERS_KEPT: Final = Bound("the answers that are kept", 32 * 1024 * 1024, "bytes")
# A node has at most 16 cards in machines of today; a MIG layout makes up to seven devices of each.
CARDS_OF_A_NODE: Final = Bound("the number of GPUs of a node", 128, "GPUs")
# NVML writes at most 96 characters, a line end with them.
CARD_TEXT: Final = Bound("the model or the UUID of a GPU", 128, "characters")
# So many cards, each with its numbers and texts and some words on why it is unhealthy.
CARDS_TEXT: Final = Bound("a node's cards annotation", 65536, "characters")
# So many pods that overuse their cards, the worst of a node, each with its uid and three numbers.
OVERUSERS: Final = Bound("the number of overusing pods that a node names", 64, "pods")
OVERUSE_TEXT: Final = Bound("a node's overuse annotation", 8192, "characters")
# Some 150 containers of a pod with a limit on one card, each with a name, a word and two numbers.
LIMITS_TEXT: Final = Bound("a pod's limits annotation", 8192, "characters")
# A runtime's name and 64 hexadecimal digits.
CONTAINER_ID: Final = Bound("the id of a container", 128, "characters")
# Unhealthy cards, or cards that are healthy again: indices or UUIDs of all cards of a node. A ConfigMap can have 1 MiB.
CARD_LIST: Final = Bound("a list of GPUs", 6144, "characters")
# A kubelet takes 110 pods by default and some hundreds at most; each waits here only until it is bound or gone.
RESERVATIONS: Final = Bound("the number of pods that are reserved on a node", 512, "pods")
# Thousands of lines, which is more classes of pods than are told apart; a few seconds to read at the start.
EXPECTED_PODS_BYTES: Final = Bound("a file of expected pods", 512 * 1024, "bytes")
# A kubeconfig of a thousand clusters, or what a large chart prints: some MB. PyYAML reads about 100 kB in a second.
YAML_CHARACTERS: Final = Bound("a text in YAML", 8 * 1024 * 1024, "characters")
# As many as are in so long a text, with those that aliases repeat.
YAML_VALUES: Final = Bound("a text in YAML", 1_000_000, "values")
# An int64 has 19 digits; the rest are a sign, a fraction and a suffix.
QUANTITY_TEXT: Final = Bound("a quantity", 64, "characters")
# A list of models or UUIDs that a person writes; the API server alone would take 256 KiB.
WISH_CHARACTERS: Final = Bound("an annotation that wishes for a card", 4096, "characters")
WISH_ENTRIES: Final = Bound("a list of wishes", 64, "entries")
# Pods that one node has with card memory. Kubelets take 110 pods by default, and the largest nodes some hundreds. An author can
# name a node in any number of pods (nodeName), and each event of one of them lays out all of its node.
PODS_OF_A_NODE: Final = Bound("the number of pods on the GPUs of a node", 1024, "pods")
# Kept for each pod with a card, to find its PodDisruptionBudgets. The API server takes as many as fit into 1.5 MiB.
LABELS_OF_A_POD: Final = Bound("the number of labels of a pod", 64, "labels")
# Kept for each pod with a card, to see what its end would give back. Each container may name others.
RESOURCES_OF_A_POD: Final = Bound("the number of resources that a pod asks for", 64, "resources")
# A preemption compares these with each pod that may end: budgets of the pod's namespace, and what one of them selects by.
BUDGETS_OF_A_NAMESPACE: Final = Bound("the number of PodDisruptionBudgets of a namespace", 256, "budgets")
SELECTOR_TERMS: Final = Bound("the selector of a PodDisruptionBudget", 16, "terms")
SELECTOR_VALUES: Final = Bound("a term of the selector of a PodDisruptionBudget", 64, "values")
# The multi-card annotation: 16 cards for each of 32 containers, in the original's JSON. A person may write it, up to 256 KiB.
ALLOCATION_CHARACTERS: Final = Bound("an annotation that names several cards", 8192, "characters")
ALLOCATION_ENTRIES: Final = Bound("an annotation that names several cards", 512, "entries")
# Any other annotation of ours is a number, a word or a uid; of any other text this much is kept, to show it in a reason.
ANNOTATION_KEPT: Final = Bound("an annotation of a pod", 256, "characters")
# A kubelet's message about a pod, which people read.
MESSAGE_KEPT: Final = Bound("the message of a pod's status", 4096, "characters")
# A scheduler's reason against a pod, which it counts over nodes. The name of a scheduler is as long as any other name.
SCHEDULER_TEXT_KEPT: Final = Bound("the report of a scheduler about a pod", 1024, "characters")
# Ended pods of a node that a device plugin remembers, because the kubelet turned them away for one of our resources.
TURNED_AWAY_PODS: Final = Bound("the number of pods that a kubelet turned away", 100, "pods")
CONTAINERS_OF_AN_ENDED_POD: Final = Bound("the containers of a pod that a kubelet turned away", 32, "containers")
# Pods of a node in one answer of the API server: each may have 1.5 MB, and a whole answer is in memory.
PODS_OF_A_PAGE: Final = Bound("a page of the pods of a node", 25, "pods")
# Likewise of all pods, of which an extender reads many thousands when it starts.
PODS_OF_A_LIST: Final = Bound("a page of all pods", 100, "pods")
# Writes by which a device plugin puts back what a pod's author changes, and those of a repair that are refused, in a minute.
REPAIRS_A_MINUTE: Final = Bound("the repair of a pod's annotations", 8, "writes a minute")
