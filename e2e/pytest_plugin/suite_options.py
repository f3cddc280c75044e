"""The cases of ``e2e`` by ``pytest --pyargs``, in a repository of others: their options, markers and limits.

Other plugins may have options called ``--cluster`` or ``--slow``. So each option of the cases begins with ``--gpu-`` here, and the
cases read it by the name that it has in our own checkout.
"""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any, Final, cast

import pytest

_PREFIX: Final = "--gpu-"
_NAME: Final = "gpushare-suite-options"
# Against hangs, in seconds, as in our own checkout.
_LIMIT_SECONDS: Final = 600
_TOP: Final = Path(__file__).parent
# A case's option: the plugin's, and the case's default.
Renamed = dict[str, tuple[str, Any]]


class _Group:
    """An option group that puts the prefix before each name."""

    def __init__(self, group: pytest.OptionGroup, renamed: Renamed) -> None:
        self._group = group
        self._renamed = renamed

    def addoption(self, *names: str, **settings: Any) -> None:
        """One option; one that the plugin has already is not added again."""
        (name,) = names
        long = _PREFIX + name.removeprefix("--").removeprefix("gpu-")
        if long not in {known for option in self._group.options for known in option.names()}:
            self._group.addoption(long, **settings)
        self._renamed[name] = (long, settings.get("default"))


class _Parser:
    """The parser that the cases' conftest gets."""

    def __init__(self, parser: pytest.Parser, renamed: Renamed) -> None:
        self._parser = parser
        self._renamed = renamed

    def getgroup(self, name: str, description: str = "") -> _Group:
        """See pytest."""
        return _Group(self._parser.getgroup(name, description), self._renamed)


class _Suite:
    """Hooks that stand for our checkout's configuration of pytest."""

    def __init__(self, renamed: Renamed) -> None:
        self._renamed = renamed

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """The options under the names by which the cases read them, and the markers that our configuration declares."""
        for name, (long, default) in self._renamed.items():
            value = config.getoption(long)
            for alias in (name, name.removeprefix("--").replace("-", "_")):
                if hasattr(config.option, alias):
                    raise pytest.UsageError(f"another plugin has an option {name}; leave that one out: -p no:NAME")
                setattr(config.option, alias, default if value is None else value)
        # The cases mark no test as asynchronous, and each of their fixtures has a loop that is named.
        warnings.filterwarnings("ignore", message="(?s).*asyncio_default_fixture_loop_scope")
        config.option.asyncio_mode = "auto"
        for marker in ("promise(*ids): see promises.yaml", "thorough(why): takes long", "exhaustive(why): takes long"):
            config.addinivalue_line("markers", marker)

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """A case is called as in our checkout, and not by where the package was installed: promises name it so."""
        if item.path.is_relative_to(_TOP):
            _rename(item, f"{item.path.relative_to(_TOP).as_posix()}::{item.nodeid.partition('::')[2]}")
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(_LIMIT_SECONDS))


def add_to(config: pytest.Config) -> None:
    """Load the cases' conftest, as pytest does for a folder on its command line. Raises UsageError if a package is missing."""
    try:
        conftest = importlib.import_module(f"{__package__}.e2e.conftest")
    except ModuleNotFoundError as error:
        raise pytest.UsageError(f"the cases need {error.name}: install pytest-gpushare[suite]") from error
    renamed: Renamed = {}
    own = conftest.pytest_addoption

    def pytest_addoption(parser: pytest.Parser) -> None:
        own(cast("pytest.Parser", _Parser(parser, renamed)))

    # pytest calls it when the module is registered, here, and does not load the file again under this name.
    vars(conftest)["pytest_addoption"] = pytest_addoption
    config.pluginmanager.register(_Suite(renamed), _NAME)
    config.pluginmanager.register(conftest, str(_TOP / "e2e" / "conftest.py"))
    # Else pytest would read the conftest of the repository, which is for its tests, and may have options called as the cases'.
    config.known_args_namespace.file_or_dir = [str(_TOP / "e2e")]


def _rename(item: pytest.Item, name: str) -> None:
    """pytest has no door for this; newer releases keep more than the text."""
    field = "_id" if hasattr(item, "_id") else "_nodeid"
    known: Any = getattr(item, field)
    setattr(item, field, name if isinstance(known, str) else type(known).parse(name))
