"""Other extenders of a run, beside ours: one that somebody runs, one that a command starts, or ours as of another commit."""

from __future__ import annotations

import asyncio
import io
import shlex
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import aiohttp

from clusters.ports import free_port
from clusters.program import Program
from clusters.progress import Progress
from load.bench.questions import PREFIX
from load.bench.servers import Bed, CannotMeasureError, answers
from load.play.plan import Asked
from load.questions import WrongAnswerError, arguments, fitting, pod_in_question
from load.simulated.cluster_file import node_names, read

# How ours of another commit is named in records and bounds.
BASELINE: Final = "baseline"
_COMMAND: Final = "other"
_ROOT: Final = Path(__file__).parents[2]
_JSON: Final = {"content-type": "application/json"}
# How long somebody else's extender may take to follow the API server of the run, and until it listens at all, in seconds.
_FOLLOW_SECONDS: Final = 300.0
_LISTEN_SECONDS: Final = 60.0
_ASK_SECONDS: Final = 1.0


def is_url(against: str) -> bool:
    """Or else it is a command."""
    return against.startswith(("http://", "https://"))


async def start_others(
    stack: AsyncExitStack, bed: Bed, against: Sequence[str], baseline: str, cluster: Path, progress: Progress
) -> list[Asked]:
    """All of them, following the API server of the bed's kubeconfig; ``stack`` ends what was started.

    Raises CannotMeasureError, ClusterError.
    """
    commands = [one for one in against if not is_url(one)]
    found = [Asked(one, one.rstrip("/") + PREFIX) for one in against if is_url(one)]
    for number, command in enumerate(commands, start=1):
        name = _COMMAND if len(commands) == 1 else f"{_COMMAND} {number}"
        found.append(await _start(stack, bed, name, shlex.split(command), {}))
    if baseline:
        folder = await asyncio.to_thread(_unpack, baseline, bed.folder / BASELINE)
        # -P: the checkout that we are in does not come first.
        argv = [sys.executable, "-P", "-m", "gpushare.extender.main", "--address", "127.0.0.1"]
        found.append(await _start(stack, bed, BASELINE, argv, {"PYTHONPATH": str(folder)}))
    for other in found:
        await _until_it_follows(other, cluster, progress)
    return found


async def _start(stack: AsyncExitStack, bed: Bed, name: str, argv: Sequence[str], more: dict[str, str]) -> Asked:
    """A program that is told its port and kubeconfig in the environment, or in its words ``{port}`` and ``{kubeconfig}``."""
    port, kubeconfig = free_port(), str(bed.folder / "kubeconfig")
    words = [word.replace("{port}", str(port)).replace("{kubeconfig}", kubeconfig) for word in argv]
    environment = {**bed.environment, **more, "PORT": str(port), "KUBECONFIG": kubeconfig}
    program = Program(name, words, environment, bed.folder / f"{name}.log", has_children=True)
    url = f"http://127.0.0.1:{port}"
    stack.push_async_callback(program.stop)
    await program.launch(lambda: answers(f"{url}/version"))
    return Asked(name, url + PREFIX)


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


async def _until_it_follows(other: Asked, cluster: Path, progress: Progress) -> None:
    """Until it knows the nodes. Raises CannotMeasureError after a while."""
    progress.text = f"waiting for {other.name} to follow the API server"
    progress.say(progress.text)
    plan = read(cluster)
    names = node_names(plan)
    body = arguments(pod_in_question("does-it-follow", min(plan.units)), names)
    wrong, begun = "", time.monotonic()
    try:
        async with asyncio.timeout(_FOLLOW_SECONDS), aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.post(f"{other.url}/filter", data=body, headers=_JSON) as answer:
                        # Nodes that it does not know do not fit.
                        wrong = "" if fitting(await answer.read(), names) else "no node fits"
                except aiohttp.ClientSSLError as error:
                    raise CannotMeasureError(f"{other.name}: {error}") from error
                except aiohttp.ClientConnectorError as error:
                    wrong = str(error)
                    if time.monotonic() - begun > _LISTEN_SECONDS:
                        raise CannotMeasureError(f"{other.name} cannot be reached: {error}") from error
                except (aiohttp.ClientError, WrongAnswerError) as error:
                    wrong = str(error)
                if not wrong:
                    return
                await asyncio.sleep(_ASK_SECONDS)
    except TimeoutError as error:
        raise CannotMeasureError(
            f"{other.name} does not know the {len(names)} nodes of this run's API server: {wrong}"
        ) from error
