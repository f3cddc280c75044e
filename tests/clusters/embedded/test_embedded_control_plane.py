"""Promises of clusters.embedded.embedded_control_plane: TLS, accounts, a clock, a state that can be kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.resources import CONFIG_MAPS, NAMESPACES, PODS, SERVICE_ACCOUNTS, Resource
from clusters.api.waiting import eventually
from clusters.clock import Clock
from clusters.embedded.embedded_control_plane import EmbeddedControlPlane
from clusters.provider import ClusterError


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Callable[..., EmbeddedControlPlane]]:
    """Makes control planes that work in folders of their own, and ends them."""
    made: list[EmbeddedControlPlane] = []

    def one(clock: Clock | None = None, state: Path | None = None) -> EmbeddedControlPlane:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(EmbeddedControlPlane(folder, clock, state))
        return made[-1]

    yield one
    for control_plane in made:
        await control_plane.stop()


Make = Callable[..., EmbeddedControlPlane]


async def there(api: ApiClient, resource: Resource, name: str, namespace: str) -> bool:
    """Is that object there?"""
    try:
        await api.get(resource, name, namespace)
    except ApiError:
        return False
    return True


async def test_a_new_namespace_is_furnished(make: Make) -> None:
    """By controllers, and a pod can come then."""
    control_plane = make()
    await control_plane.start()
    async with ApiClient.from_kubeconfig(control_plane.kubeconfig) as api:
        await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}})
        await eventually(lambda: there(api, SERVICE_ACCOUNTS, "default", "mine"), bool, "the account is there")
        await eventually(lambda: there(api, CONFIG_MAPS, "kube-root-ca.crt", "mine"), bool, "the certificate is there")
        spec = {"containers": [{"name": "c", "image": "i"}]}
        await api.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}, "mine")


async def test_an_account_has_its_rights_and_nothing_more(make: Make, tmp_path: Path) -> None:
    """The kubeconfigs of an account and of a kubelet give only the rights of that user."""
    control_plane = make()
    await control_plane.start(controllers=False)
    path = await control_plane.token_kubeconfig(tmp_path / "account", "default", "default")
    async with ApiClient.from_kubeconfig(path) as account:
        with pytest.raises(ApiError, match="system:serviceaccount:default:default"):
            await account.list(PODS)
    async with ApiClient.from_kubeconfig(control_plane.kubelet_kubeconfig("n")) as kubelet:
        assert await kubelet.list(PODS) == []
        with pytest.raises(ApiError, match='User "system:node:n" cannot list'):
            await kubelet.list(NAMESPACES)


async def test_a_token_that_is_bound_to_a_pod_dies_with_it(make: Make, tmp_path: Path) -> None:
    """While the pod lives, the API server knows from the token on which node it is."""
    control_plane = make()
    await control_plane.start(controllers=False)
    async with ApiClient.from_kubeconfig(control_plane.kubeconfig) as api:
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}}
        await api.create({"apiVersion": "v1", "kind": "Pod", **pod})
        path = await control_plane.token_kubeconfig(tmp_path / "account", "default", "default", "p")
        async with ApiClient.from_kubeconfig(path) as account:
            answer = await account.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body={})
            await api.delete(PODS, "p", "default", grace_seconds=0)
            with pytest.raises(ApiError, match="401"):
                await account.list(PODS)
    assert answer["status"]["userInfo"]["extra"]["authentication.kubernetes.io/node-name"] == ["n"]


async def test_its_clock_is_the_one_it_is_given(make: Make) -> None:
    """New objects have that time."""
    clock = Clock(1e7)
    control_plane = make(clock)
    began = clock.now()
    await control_plane.start(controllers=False)
    async with ApiClient.from_kubeconfig(control_plane.kubeconfig) as api:
        made = await api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    assert made["metadata"]["creationTimestamp"] > began.isoformat()


async def test_the_next_one_goes_on(make: Make, tmp_path: Path) -> None:
    """From the state that the one before has left."""
    state = tmp_path / "state"
    first = make(state=state)
    await first.start(controllers=False)
    async with ApiClient.from_kubeconfig(first.kubeconfig) as api:
        made = await api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    await first.stop()
    second = make(state=state)
    await second.start(controllers=False)
    async with ApiClient.from_kubeconfig(second.kubeconfig) as api:
        assert await api.get(CONFIG_MAPS, "c", "default") == made


async def test_a_broken_state_is_an_error_and_stays(make: Make, tmp_path: Path) -> None:
    """A user that has broken it may want to mend it."""
    state = tmp_path / "state"
    state.write_text("{broken")
    control_plane = make(state=state)
    with pytest.raises(ClusterError, match="state"):
        await control_plane.start()
    await control_plane.stop()
    assert state.read_text() == "{broken"


async def test_a_restarted_server_has_its_objects_and_no_history(make: Make) -> None:
    """At the same place."""
    control_plane = make()
    await control_plane.start(controllers=False)
    url = control_plane.url
    async with ApiClient.from_kubeconfig(control_plane.kubeconfig) as api:
        await api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
        await control_plane.restart_api_server()
        assert control_plane.url == url
        assert await there(api, CONFIG_MAPS, "c", "default")
        with pytest.raises(ApiError, match="too old"):
            await api.request(
                "GET", CONFIG_MAPS.path(), params={"resourceVersion": "2", "resourceVersionMatch": "Exact"}
            )
