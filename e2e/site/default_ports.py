"""The ports of the programs as ``clusters/deploy`` sets them; two programs cannot have one port of a machine. Pure."""

from __future__ import annotations

from typing import Final

EXTENDER: Final = 12345
# The Service in overlays/nodeport has it, as the original.
NODE_PORT: Final = 32766
# By the kind of node: what runs on control planes, and on nodes with cards.
CONTROL_PLANE: Final = {EXTENDER: "the extender", 12346: "the extender's metrics"}
SHARING: Final = {12347: "the device plugin's metrics"}
