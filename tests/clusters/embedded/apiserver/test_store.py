"""Promises of clusters.embedded.apiserver.store."""

from __future__ import annotations

import json

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from clusters.api.resources import CONFIG_MAPS, PODS
from clusters.embedded.apiserver.store import Store
from tests.clusters.embedded.apiserver.samples import Object, refused

HISTORY = 5


def item(name: str, **data: str) -> Object:
    """An object as the store takes it."""
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "namespace": "n"}, "data": data}


def test_versions_are_one_counter_for_all_kinds() -> None:
    """All kinds share one counter, so that a list of one kind has the version at which its watch goes on."""
    store = Store([CONFIG_MAPS, PODS], history=HISTORY)
    first = store.put(CONFIG_MAPS, item("a"))
    second = store.put(PODS, item("b"))

    assert second.version == first.version + 1
    assert store.since(PODS, first.version)[0].new is second
    assert store.since(CONFIG_MAPS, first.version) == []


def test_a_write_leaves_what_was_read_alone() -> None:
    """Readers keep their object."""
    store = Store([CONFIG_MAPS], history=HISTORY)
    before = store.put(CONFIG_MAPS, item("a", x="1"))
    store.put(CONFIG_MAPS, item("a", x="2"))

    assert before.item["data"] == {"x": "1"}


def test_json_of_an_object_names_its_kind_and_of_a_list_does_not() -> None:
    """The JSON of an object has its kind and that of a list item does not, as on the real API server."""
    stored = Store([CONFIG_MAPS], history=HISTORY).put(CONFIG_MAPS, item("a"))

    assert list(json.loads(stored.json()))[:2] == ["kind", "apiVersion"]
    assert set(json.loads(stored.raw)) == {"metadata", "data"}


def test_who_watches_is_woken_until_he_leaves() -> None:
    """By changes of his kind only."""
    store = Store([CONFIG_MAPS, PODS], history=HISTORY)
    woken: list[int] = []
    leave = store.wake_on_change(CONFIG_MAPS, lambda: woken.append(1))
    store.put(CONFIG_MAPS, item("a"))
    store.put(PODS, item("a"))
    leave()
    store.put(CONFIG_MAPS, item("b"))

    assert woken == [1]


def test_forgotten_changes_are_410() -> None:
    """A client that is up to date still is."""
    store = Store([CONFIG_MAPS], history=HISTORY)
    stored = store.put(CONFIG_MAPS, item("a"))
    store.forget_changes()
    refused(410, lambda: store.since(CONFIG_MAPS, stored.version - 1))

    assert store.since(CONFIG_MAPS, store.version) == []


class NaiveModel(RuleBasedStateMachine):
    """The store against a copy of all its states: every list plus the changes after it is the newest list, or 410."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Store([CONFIG_MAPS], history=HISTORY)
        self.states: dict[int, dict[str, str]] = {self.store.version: {}}

    @property
    def newest(self) -> dict[str, str]:
        """Name to data."""
        return self.states[max(self.states)]

    @rule(name=st.sampled_from("abc"), value=st.sampled_from("12"))
    def put(self, name: str, value: str) -> None:
        """Create or replace."""
        self.states[self.store.put(CONFIG_MAPS, item(name, x=value)).version] = {**self.newest, name: value}

    @rule(name=st.sampled_from("abc"))
    def remove(self, name: str) -> None:
        """Delete what is there."""
        if name in self.newest:
            left = {key: value for key, value in self.newest.items() if key != name}
            self.states[self.store.remove(CONFIG_MAPS, item(name)).version] = left

    @invariant()
    def a_list_and_its_changes_lead_to_the_newest_state(self) -> None:
        """From every version that was ever listed; older than the history: 410, and only then."""
        versions = sorted(self.states)
        for version in versions:
            behind = len([each for each in versions if each > version])
            if behind > HISTORY:
                refused(410, lambda version=version: self.store.since(CONFIG_MAPS, version))
                continue
            changes = self.store.since(CONFIG_MAPS, version)
            assert len(changes) == behind
            seen = dict(self.states[version])
            for change in changes:
                name = change.last.key[1]
                assert (change.old is not None) == (name in seen)
                if change.new is None:
                    del seen[name]
                else:
                    seen[name] = change.new.item["data"]["x"]
            assert seen == self.newest
            shown = {each.key[1]: each.item["data"]["x"] for each in self.store.all(CONFIG_MAPS, at=version)}
            assert shown == self.states[version]

    @invariant()
    def a_list_is_in_order_and_can_be_read_from_any_key_on(self) -> None:
        """The newest, and as it was at any version that is remembered; from a key that is there, or is not."""
        for version in sorted(self.states)[-HISTORY:]:
            at = None if version == self.store.version else version
            for after in (None, ("m", "c"), ("n", "a"), ("n", "bb")):
                found = [each.key for each in self.store.all(CONFIG_MAPS, at=at, after=after)]
                names = sorted(self.states[version])
                assert found == [("n", name) for name in names if after is None or ("n", name) > after]


NaiveModel.TestCase.settings = settings(max_examples=30, stateful_step_count=30)
test_the_store_behaves_like_a_copy_of_all_its_states = NaiveModel.TestCase
