"""Generate the gRPC stubs: ``make generate`` (needs grpcio-tools)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent
_PACKAGE: Final = "gpushare.deviceplugin.proto"


def main() -> int:
    """Write ``*_pb2.py``, ``*_pb2.pyi`` and ``*_pb2_grpc.py`` beside the ``.proto`` files."""
    protos = sorted(_FOLDER.glob("*.proto"))
    out = [f"--{kind}_out={_FOLDER}" for kind in ("python", "pyi", "grpc_python")]
    files = [proto.name for proto in protos]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{_FOLDER}", *out, *files], check=True)
    for proto in protos:
        _adapt(_FOLDER / f"{proto.stem}_pb2.py")
        _adapt(_FOLDER / f"{proto.stem}_pb2_grpc.py")
        print(f"generated {proto.stem}_pb2.py, .pyi, _grpc.py")  # noqa: T201  # a command's output
    return 0


def _adapt(path: Path) -> None:
    """Absolute imports, and a descriptor pool of our own: another program's stubs may name the same messages."""
    text = path.read_text()
    text = re.sub(r"^import (\w+_pb2) as", rf"from {_PACKAGE} import \1 as", text, flags=re.MULTILINE)
    path.write_text(text.replace("_descriptor_pool.Default()", "_descriptor_pool.DescriptorPool()"))


if __name__ == "__main__":
    sys.exit(main())
