"""Generate the stubs of both ends, the kubelet's and the plugin's: ``make generate`` (needs grpcio-tools).

The same input gives the same output.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[3]
# Each end has its own copy of the messages that it reads. The plugin finds its services in their descriptors.
_PACKAGES: Final = {
    "clusters.kubelet.proto": ("python", "pyi", "grpc_python"),
    "gpushare.deviceplugin.proto": ("python", "pyi"),
}


def main() -> int:
    """Write ``*_pb2.py``, ``*_pb2.pyi`` and the kubelet's ``*_pb2_grpc.py`` beside each ``.proto`` and print their names."""
    for package, kinds in _PACKAGES.items():
        folder = _ROOT / package.replace(".", "/")
        names = sorted(path.name for path in folder.glob("*.proto"))
        outputs = [f"--{kind}_out={folder}" for kind in kinds]
        subprocess.run(
            [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={folder}", *outputs, *names], check=True
        )
        for path in sorted(folder.glob("*_pb2*")):
            path.write_text(adapted(path.read_text(), package))
            print(path)  # noqa: T201  # what the command is for
    return 0


def adapted(source: str, package: str) -> str:
    """The generated text with absolute imports, a descriptor pool of its own and no class of the experimental API.

    The pool that all modules share takes each message name once; a program under test may bring stubs of the same API
    into one process.
    """
    source = re.sub(r"^import (\w+_pb2) as", rf"from {package} import \1 as", source, flags=re.MULTILINE)
    source = re.sub(
        r"\n\n\n # This class is part of an EXPERIMENTAL API\..*?(?=\n\n\n|\n\Z)", "", source, flags=re.DOTALL
    )
    return source.replace("_descriptor_pool.Default()", "_descriptor_pool.DescriptorPool()")


if __name__ == "__main__":
    sys.exit(main())
