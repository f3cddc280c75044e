"""Steps of the Dockerfile, run by the base's own Python: no shell is needed.

Files that lie ready in the build context (wheels, compiled programs) are taken, and nothing is fetched then; else the index is
asked. Every file that is installed, from either, has the hash that a list in .ci/constraints has for it.
"""

from __future__ import annotations

import compileall
import ctypes
import importlib.metadata
import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

# Below the build context: empty in the repository.
READY = Path("clusters/kind/program_images/ready/programs")
CONSTRAINTS = Path(".ci/constraints")
# Programs that must at least be able to say what they are.
STARTED = ("gpushare-extender", "gpushare-device-plugin", "kubectl-inspect-gpushare", "kubectl-gpushare", "fake-nvml")
SIMULATED_PROGRAM = "clusters/kind/program_images/files/simulated_plugin.py"


def install_dependencies(source: Path, target: Path) -> None:
    """A virtual environment with the dependencies of the product."""
    _run(sys.executable, "-m", "venv", "--without-pip", target)
    wheels = source / "wheels"
    offline = ["--no-index", "--find-links", wheels] if any(wheels.glob("*.whl")) else []
    _pip(wheels, target, *offline, *_listed(source / "constraints", "product"))
    _compile(target)


def install_own(checkout: Path, target: Path) -> None:
    """The checkout's wheels: ``product`` is laid over the dependencies, ``simulated`` beside them."""
    environment, wheels = Path(sys.prefix), checkout.parent / "wheels"
    ready = sorted((checkout / READY).glob("*.whl"))
    if not ready:
        # The build backend stays in this stage: only our own files leave it.
        _pip(wheels, environment, *_listed(checkout / CONSTRAINTS, "build"))
    _pip(
        wheels,
        environment,
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
        *(ready or [checkout, checkout / "fake_nvml"]),
    )
    for program in STARTED:
        _run(environment / "bin" / program, "--help", quiet=True)
    _part(environment, target)
    simulated = target / "simulated"
    (simulated / "bin" / "gpushare-device-plugin-simulated").write_text((checkout / SIMULATED_PROGRAM).read_text())
    # Manifests of sites with real cards run on simulated ones with another image alone.
    (simulated / "bin" / "gpushare-device-plugin").symlink_to("gpushare-device-plugin-simulated")
    for script in (simulated / "bin").iterdir():
        script.chmod(0o755)
    _compile(target)


def take_compiled(checkout: Path, target: Path) -> None:
    """The simulated libraries and the player; compiled here if they do not lie ready."""
    ready = checkout / READY
    if not (ready / "player").is_dir():
        ready = _compile_programs(checkout, target.with_name(f"{target.name}-work"))
    for name in ("libraries", "player"):
        shutil.copytree(ready / name, target / name, symlinks=True)
    for library in sorted((target / "libraries").glob("*/*.so*")):
        # One built against a newer C library than the base's fails here, and not on a node.
        ctypes.CDLL(str(library))


def _compile_programs(checkout: Path, work: Path) -> Path:
    """With a compiler that is a wheel: no base needs to have one."""
    _run(_base_python(), "-m", "venv", work / "tools")
    # The lists that these programs read, and the compiler.
    _pip(work, work / "tools", *_listed(checkout / CONSTRAINTS, "product", "compiler"))
    environment = {**os.environ, "GPUSHARE_CACHE": str(work / "cache")}  # noqa: TID251  # this is a program of its own
    argv = [str(work / "tools/bin/python"), "-m", "clusters.kind.program_images.compiled_images", str(work / "built")]
    subprocess.run(argv, cwd=checkout, env=environment, check=True)
    return work / "built"


def _part(environment: Path, target: Path) -> None:
    """Move the installed files of our distributions out of the environment."""
    for name in ("gpushare-scheduler", "fake-nvml"):
        distribution = importlib.metadata.distribution(name)
        for file in distribution.files or ():
            path = Path(os.path.abspath(str(distribution.locate_file(file))))  # noqa: PTH100  # links stay links
            if name == "gpushare-scheduler":
                place = target / "product" / path.relative_to(environment)
            elif path.name == name:
                place = target / "simulated" / "bin" / path.name
            else:
                place = target / "simulated" / "site" / file
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(path, place)
    # Its own start: the package is not in the environment's folder.
    (target / "simulated" / "bin" / "fake-nvml").write_text(
        f"#!{environment}/bin/python\nimport sys\n\nsys.path.insert(0, '/opt/simulated-nvml/site')\n"
        "from fake_nvml.main import main\n\nsys.exit(main())\n"
    )


def _listed(folder: Path, *names: str) -> list[object]:
    """Install these lists; pip refuses a file with a hash that is not in them, and a distribution that is not."""
    return ["--require-hashes", *(part for name in names for part in ("--requirement", folder / f"{name}.txt"))]


def _pip(wheels: Path, environment: Path, *arguments: object) -> None:
    """The base's pip, or the one among the wheels, which runs as it lies there; it installs listed files, or what lies here."""
    if not {"--require-hashes", "--no-index"} & set(arguments):
        raise SystemExit(f"nothing says which files pip may install: {arguments}")
    packed = sorted(wheels.glob("pip-*.whl"))
    python = environment / "bin" / "python"
    pip = [python, packed[-1] / "pip"] if packed else [_base_python(), "-m", "pip", "--python", python]
    quiet = ["--quiet", "--no-cache-dir", "--disable-pip-version-check", "--root-user-action=ignore", "--no-compile"]
    _run(*pip, "install", *quiet, *arguments)


def _base_python() -> Path:
    return Path(sys.base_prefix) / "bin" / "python3"


def _compile(folder: Path) -> None:
    """Bytecode that stays valid whatever becomes of the files' times on the way into an image."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(folder, quiet=1, force=True, invalidation_mode=mode):
        raise SystemExit(f"{folder}: a file is no Python of this version")


def _run(*argv: object, quiet: bool = False) -> None:
    subprocess.run([str(part) for part in argv], stdout=subprocess.DEVNULL if quiet else None, check=True)


def main() -> None:
    """``install.py STEP SOURCE TARGET``."""
    step, source, target = sys.argv[1:]
    steps = {"dependencies": install_dependencies, "own": install_own, "compiled": take_compiled}
    steps[step](Path(source), Path(target))


if __name__ == "__main__":
    main()
