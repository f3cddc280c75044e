"""Other extenders of a run, beside ours: one that the user runs, one that a command starts, or ours as of another commit."""

from __future__ import annotations

import asyncio
import io
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp

from clusters.api.readiness import is_up
from clusters.processes.commands import Progress
from clusters.processes.scratch import free_port
from load.bench.bench_servers import Bed
from load.load_commands import CannotMeasureError
from load.play.load_plan import VERBS, Asked
from load.questions import PREFIX, HopelessAnswerError, WrongAnswerError, arguments, fitting, highest, pod_in_question
from load.simulated.cluster_file import node_names, read

# How ours of another commit is named in records and bounds.
BASELINE: Final = "baseline"
_COMMAND: Final = "other"
_ROOT: Final = Path(__file__).parents[2]
_JSON: Final = {"content-type": "application/json"}
# How long a user's extender may take to follow the API server of the run, and until it listens at all, in seconds.
_FOLLOW_SECONDS: Final = 300.0
_LISTEN_SECONDS: Final = 60.0
_ASK_SECONDS: Final = 1.0
# Answers that stay as they are: the path is another one, or we may not ask.
_FOR_GOOD: Final = frozenset({301, 302, 307, 308, 400, 401, 403, 404, 405, 410, 415, 501})
_HINT: Final = "--path and --verbs say where its verbs are"
# How long one question may take, in seconds.
ANSWER_SECONDS: Final = 30.0
# So many bytes of such an answer are shown.
_SHOWN: Final = 120


def is_url(against: str) -> bool:
    """Or else it is a command."""
    return against.startswith(("http://", "https://"))


@dataclass(frozen=True, slots=True)
class Foreign:
    """The extenders of ``--against``: URLs and commands, and how all of them are asked.

    ``path`` is before the verbs.
    """

    against: tuple[str, ...] = ()
    path: str = PREFIX
    verbs: Mapping[str, str] = field(default_factory=lambda: dict(VERBS))

    def asked(self, name: str, base: str) -> Asked:
        """One of them, by the URL that ends before its path."""
        return Asked(name, base.rstrip("/") + self.path, verbs=dict(self.verbs))


async def start_others(bed: Bed, foreign: Foreign, baseline: str, cluster: Path, progress: Progress) -> list[Asked]:
    """All of them, following the API server of the bed's kubeconfig.

    Raises CannotMeasureError, ClusterError.
    """
    commands = [one for one in foreign.against if not is_url(one)]
    found = [foreign.asked(url, url) for url in filter(is_url, foreign.against)]
    for number, command in enumerate(commands, start=1):
        name = _COMMAND if len(commands) == 1 else f"{_COMMAND} {number}"
        base = await _start(bed, name, shlex.split(command), {})
        found.append(foreign.asked(name, base))
    if baseline:
        folder = await asyncio.to_thread(_unpack, baseline, bed.folder / BASELINE)
        # -P: the checkout that we are in does not come first.
        argv = [sys.executable, "-P", "-m", "gpushare.extender.main", "--address", "127.0.0.1"]
        base = await _start(bed, BASELINE, argv, {"PYTHONPATH": str(folder)})
        found.append(Asked(BASELINE, base + PREFIX))
    for other in found:
        await until_it_follows(other, cluster, progress)
    return found


async def _start(bed: Bed, name: str, argv: Sequence[str], more: dict[str, str]) -> str:
    """The URL of a program that gets its port and kubeconfig in the environment, or in its words ``{port}`` and ``{kubeconfig}``.

    It has started once it listens.
    """
    port, kubeconfig = free_port(), str(bed.folder / "kubeconfig")
    words = [word.replace("{port}", str(port)).replace("{kubeconfig}", kubeconfig) for word in argv]
    url = f"http://127.0.0.1:{port}"
    own = {**more, "PORT": str(port), "KUBECONFIG": kubeconfig}
    await bed.start(name, words, lambda: is_up(url, ""), own, has_children=True)
    return url


def _unpack(revision: str, folder: Path) -> Path:
    """The product as of a commit. Raises CannotMeasureError."""
    try:
        done = subprocess.run(["git", "archive", revision, "gpushare"], cwd=_ROOT, capture_output=True, check=False)
    except OSError as error:
        raise CannotMeasureError(f"--baseline needs git: {error.strerror}") from error
    if done.returncode != 0:
        raise CannotMeasureError(f"--baseline {revision}: {done.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


async def until_it_follows(other: Asked, cluster: Path, progress: Progress) -> None:
    """Wait until it knows the nodes.

    Raises CannotMeasureError after a while, and immediately for an answer that no wait makes better.
    """
    progress.text = f"waiting for {other.name} to follow the API server"
    progress.line(progress.text)
    plan = read(cluster)
    names = node_names(plan)
    pod = pod_in_question("does-it-follow", min(plan.units))
    wrong, begun = "", asyncio.get_running_loop().time()
    limit = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    try:
        async with asyncio.timeout(_FOLLOW_SECONDS), aiohttp.ClientSession(timeout=limit) as session:
            while True:
                try:
                    wrong = await _why_not_yet(session, other, pod, names)
                except aiohttp.ClientConnectorError as error:
                    wrong = str(error)
                    if asyncio.get_running_loop().time() - begun > _LISTEN_SECONDS:
                        raise CannotMeasureError(f"{other.name} cannot be reached: {error}") from error
                if not wrong:
                    return
                await asyncio.sleep(_ASK_SECONDS)
    except TimeoutError as error:
        raise CannotMeasureError(
            f"{other.name} does not know the {len(names)} nodes of this run's API server: {wrong}"
        ) from error


async def _why_not_yet(session: aiohttp.ClientSession, other: Asked, pod: bytes, names: Sequence[str]) -> str:
    """Why it does not answer about these nodes yet, "" if it does; a node that it does not know does not fit.

    Raises CannotMeasureError for an answer that stays wrong, ClientConnectorError if it does not listen.
    """
    try:
        fit = await _ask(session, other, "filter", arguments(pod, names), lambda answer: fitting(answer, names))
        if fit and "prioritize" in other.verbs:
            await _ask(session, other, "prioritize", arguments(pod, fit), lambda answer: highest(answer, fit))
    except TimeoutError:
        return f"no answer in {ANSWER_SECONDS:.0f} s"
    except HopelessAnswerError as error:
        raise CannotMeasureError(f"{other.name}: {error}") from error
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientError, WrongAnswerError) as error:
        return str(error)
    return "" if fit else "no node fits"


async def _ask(
    session: aiohttp.ClientSession, other: Asked, verb: str, body: bytes, read: Callable[[bytes], list[str]]
) -> list[str]:
    """The nodes that it answers, by ``read``. Raises WrongAnswerError for another status than 200, HopelessAnswerError if it is
    for good, and what ``read`` raises, with the question and the beginning of the answer.
    """
    url = other.url_of(verb)
    # A redirect is not followed: each question would be measured twice.
    async with session.post(url, data=body, headers=_JSON, allow_redirects=False) as answer:
        content = await answer.read()
    begun = content[:_SHOWN].decode(errors="replace").strip()
    text = f"POST {url} answered {answer.status} {answer.reason}, which begins {begun!r}"
    if answer.status in _FOR_GOOD:
        raise HopelessAnswerError(f"{text}; {_HINT}")
    if answer.status != 200:
        raise WrongAnswerError(text)
    try:
        return read(content)
    except HopelessAnswerError as error:
        raise HopelessAnswerError(f"{text}: {error}; {_HINT}") from error
    except WrongAnswerError as error:
        raise WrongAnswerError(f"{text}: {error}") from error
