"""The second scheduler, for clusters with one that cannot be configured: it binds the pods that name it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import yaml

from clusters.api.api_client import ApiError
from clusters.api.resources import EVENTS, resource_of
from clusters.api.waiting import eventually
from clusters.deploy.render import FOLDER
from e2e import spec
from e2e.builders import NO_SCHEDULER, gpu_pod, plain_container
from e2e.extender.extender_under_test import ExtenderUnderTest, Object
from e2e.observer import Observer
from e2e.tenant import admitted

pytestmark = [pytest.mark.needs("manifests"), pytest.mark.stand_in_only("its programs run beside the cluster")]

OVERLAY: Final = FOLDER / "overlays" / "second-scheduler"
POLICY: Final = FOLDER / "components" / "scheduler-name" / "scheduler-name-policy.yaml"
NAME: Final = "gpushare-scheduler"
DEFAULT: Final = "default-scheduler"


def configuration(stage: ExtenderUnderTest) -> dict[str, Any]:
    """The one in the overlay's ConfigMap, for the session's extender."""
    mounted = yaml.safe_load((OVERLAY / "second-scheduler.yaml").read_text())["data"]
    shipped = yaml.safe_load(mounted["config.yaml"])
    (extender,) = shipped["extenders"]
    return {**shipped, "extenders": [{**extender, "urlPrefix": stage.cluster.extender_url()}]}


@contextlib.asynccontextmanager
async def created(stage: ExtenderUnderTest, *manifests: Object) -> AsyncIterator[None]:
    """The objects are there inside. Skips if the API server has no such kind."""
    paths = []
    try:
        for item in manifests:
            path = resource_of(item).path(item["metadata"].get("namespace"))
            await stage.api.request("POST", path, body=item, params={"fieldValidation": "Strict"})
            paths.append(f"{path}/{item['metadata']['name']}")
        yield
    except ApiError as error:
        if error.code != 404 or len(paths) == len(manifests):
            raise
        pytest.skip(f"this API server has no {manifests[len(paths)]['kind']}")
    finally:
        for path in reversed(paths):
            await stage.api.request("DELETE", path)


async def bound_by(stage: ExtenderUnderTest, name: str) -> set[str]:
    """The schedulers that have reported a binding of the pod."""
    events = await stage.api.list(EVENTS, stage.namespace, field_selector=f"involvedObject.name={name}")
    return {
        event.get("reportingComponent") or event["source"]["component"]
        for event in events
        if event["reason"] == "Scheduled"
    }


@pytest.mark.needs("device_plugin")
@pytest.mark.promise("EXT-038", "D28")
async def test_pods_that_name_the_second_scheduler_share_a_card(stage: ExtenderUnderTest, observer: Observer) -> None:
    """The account of the extender's pod and the roles of the overlay are enough; other pods stay with the cluster's scheduler."""
    shared = [f"p{number}" for number in range(3)]
    plain = gpu_pod("plain", node="a1")
    plain["spec"]["containers"] = [plain_container("c")]
    roles = yaml.safe_load_all((OVERLAY / "scheduler-roles.yaml").read_text())
    async with created(stage, *roles), stage.scheduler(configuration(stage), account=await stage.account()):
        await observer.run(*(gpu_pod(name, 4, node="a1", scheduler=NAME) for name in shared), plain)
        pods = await observer.check_all(*shared)

    assert {pod["metadata"]["annotations"][spec.POD_INDEX] for pod in pods} == {"0"}
    assert [await bound_by(stage, name) for name in (*shared, "plain")] == [{NAME}] * 3 + [{DEFAULT}]


@pytest.mark.promise("EXT-038")
async def test_the_policy_names_the_scheduler_of_pods_that_share(stage: ExtenderUnderTest) -> None:
    """A pod that asks for card memory and names neither scheduler nor node gets ours; each other pod keeps its own."""
    plain = gpu_pod("plain")
    plain["spec"]["containers"] = [plain_container("c")]
    late = gpu_pod("init", 1)
    late["spec"] |= {"initContainers": late["spec"]["containers"], "containers": [plain_container("c")]}
    asked = {
        "shares": gpu_pod("shares", 1),
        "init": late,
        "plain": plain,
        "other": gpu_pod("other", 1, scheduler=NO_SCHEDULER),
        "bound": gpu_pod("bound", 1, bound_to="a1"),
    }

    async def schedulers_of() -> dict[str, str]:
        made = {name: await admitted(stage.api, pod, stage.namespace, dry_run=True) for name, pod in asked.items()}
        return {name: pod["spec"]["schedulerName"] for name, pod in made.items()}

    async with created(stage, *yaml.safe_load_all(POLICY.read_text())):
        seen = await eventually(schedulers_of, lambda found: found["shares"] == NAME, "the policy acts")
    assert seen == {"shares": NAME, "init": NAME, "plain": DEFAULT, "other": NO_SCHEDULER, "bound": DEFAULT}
    await eventually(schedulers_of, lambda found: found["shares"] == DEFAULT, "the policy acts no more")
