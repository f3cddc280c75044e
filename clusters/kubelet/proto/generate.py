"""Generate the messages of both ends, the kubelet's and the plugin's: ``make generate`` (needs grpcio-tools).

The same input gives the same output.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[3]
# Each end has its own copy of the messages that it reads.
_FOLDERS: Final = (_ROOT / "clusters/kubelet/proto", _ROOT / "gpushare/deviceplugin/proto")


def main() -> int:
    """Write ``*_pb2.py`` and ``*_pb2.pyi`` beside each ``.proto`` and print their names."""
    for folder in _FOLDERS:
        names = sorted(path.name for path in folder.glob("*.proto"))
        options = [f"--proto_path={folder}", f"--python_out={folder}", f"--pyi_out={folder}"]
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options, *names], check=True)
        for path in sorted(folder.glob("*_pb2*")):
            # A program under test may bring messages of the same names into one process: a pool takes each name once.
            text = path.read_text().replace("_descriptor_pool.Default()", "_descriptor_pool.DescriptorPool()")
            path.write_text(text)
            print(path)  # noqa: T201  # what the command is for
    return 0


if __name__ == "__main__":
    sys.exit(main())
