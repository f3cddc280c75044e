"""Options of this repository, called as those of many."""


def pytest_addoption(parser):
    for name in ("--cluster", "--target", "--slow", "--nodes"):
        parser.addoption(name, default="ours")
