"""A program of its own that calls pynvml on request: one JSON request a line in, one JSON answer a line out.

``probe.py PYNVML_FOLDER``; requests:

* ``{"call": name, "arguments": [...]}``: a function of pynvml;
* ``{"raw": name, "arguments": [...]}``: a C function, which answers its return code and what it wrote;
* ``{"distinct": [name, arguments, times]}``: the different answers of a function called this number of times;
* ``{"wait": [set, milliseconds]}``: an event, by the newest way that the driver has;
* ``{"has": name}``: whether the library has a symbol;
* ``{"user": id}``: open files as another user from now on;
* ``{"reset": 1}``: shut down as often as was initialised, and be the first user again.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

HANDLES: dict[int, Any] = {}
USER = os.geteuid()


def address(handle: Any) -> int:
    """The address in a handle, 0 for NULL."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def encode(value: Any) -> Any:
    """A value of pynvml as JSON's types."""
    if isinstance(value, bytes):
        return value.decode()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple, ctypes.Array)):
        return [encode(item) for item in value]
    if isinstance(value, ctypes._Pointer):
        HANDLES[address(value)] = value
        return {"handle": address(value)}
    if isinstance(value, (ctypes.Structure, ctypes.Union)):
        return {name: encode(getattr(value, name)) for name, *_ in value._fields_}
    if hasattr(value, "value"):
        return encode(value.value)
    # pynvml's "friendly" objects
    return {name: encode(item) for name, item in vars(value).items()}


def decode(argument: Any) -> Any:
    """An argument of a request as pynvml takes it."""
    if isinstance(argument, dict) and "handle" in argument:
        return HANDLES[argument["handle"]]
    if isinstance(argument, dict) and "uint" in argument:
        return ctypes.c_uint(argument["uint"])
    if isinstance(argument, dict) and "buffer" in argument:
        return ctypes.create_string_buffer(argument["buffer"])
    if isinstance(argument, dict) and "array" in argument:
        return (pynvml.c_nvmlProcessInfo_t * argument["array"])()
    return argument


def raw(name: str, arguments: list[Any]) -> dict[str, Any]:
    """Numbers named {"out": n} go by reference and come back, as buffers do."""
    values = [ctypes.c_uint(a["out"]) if isinstance(a, dict) and "out" in a else decode(a) for a in arguments]
    outs = [isinstance(a, dict) and "out" in a for a in arguments]
    passed = [ctypes.byref(value) if out else value for value, out in zip(values, outs, strict=True)]
    code = pynvml._nvmlGetFunctionPointer(name)(*passed)
    return {
        "code": code,
        "wrote": [written(value) for value, out in zip(values, outs, strict=True) if out or is_array(value)],
    }


def is_array(value: Any) -> bool:
    """Whether C fills the value."""
    return isinstance(value, ctypes.Array)


def written(value: Any) -> Any:
    """The content of an argument after the call."""
    return [row.pid for row in value] if is_array(value) and not hasattr(value, "raw") else encode(value.value)


class FirstEvent(ctypes.Structure):
    """The struct of nvmlEventSetWait from before events named an instance; pynvml does not know it any more."""

    _fields_ = (("device", ctypes.c_void_p), ("eventType", ctypes.c_ulonglong), ("eventData", ctypes.c_ulonglong))  # type: ignore[mutable-override]


def wait(events: Any, timeout_ms: int) -> Any:
    """An event, by the newest way that the driver has."""
    if hasattr(pynvml.nvmlLib, "nvmlEventSetWait_v2"):
        return encode(pynvml.nvmlEventSetWait(events, timeout_ms))
    event = FirstEvent()
    pynvml._nvmlCheckReturn(
        pynvml._nvmlGetFunctionPointer("nvmlEventSetWait")(events, ctypes.byref(event), ctypes.c_uint(timeout_ms))
    )
    unknown = {"gpuInstanceId": 0xFFFFFFFF, "computeInstanceId": 0xFFFFFFFF}
    return {**unknown, "device": {"handle": event.device}, "eventType": event.eventType, "eventData": event.eventData}


def reset() -> None:
    """Shut down, and be the first user again."""
    while pynvml._nvmlLib_refcount > 0:
        pynvml.nvmlShutdown()
    HANDLES.clear()
    if os.geteuid() != USER:
        os.seteuid(USER)


def answer(request: dict[str, Any]) -> Any:
    """Do one request."""
    if "has" in request:
        return hasattr(pynvml.nvmlLib, request["has"])
    if "reset" in request:
        return reset()
    if "distinct" in request:
        name, arguments, times = request["distinct"]
        passed = [decode(argument) for argument in arguments]
        seen = {json.dumps(encode(getattr(pynvml, name)(*passed))) for _ in range(times)}
        return [json.loads(answer) for answer in seen]
    if "user" in request:
        return os.seteuid(request["user"])
    if "wait" in request:
        events, timeout_ms = request["wait"]
        return wait(decode(events), timeout_ms)
    arguments = [decode(argument) for argument in request["arguments"]]
    if "raw" in request:
        return raw(request["raw"], request["arguments"])
    return encode(getattr(pynvml, request["call"])(*arguments, **request.get("named", {})))


def main() -> None:
    """Answer each line of the input."""
    for line in sys.stdin:
        try:
            reply = {"result": answer(json.loads(line))}
        except Exception as error:  # whatever pynvml raises is the answer
            reply = {"error": type(error).__name__, "code": getattr(error, "value", None), "text": str(error)}
        print(json.dumps(reply), flush=True)  # noqa: T201  # the answer


if __name__ == "__main__":
    sys.path[:0] = filter(None, sys.argv[1:])
    import pynvml

    main()
