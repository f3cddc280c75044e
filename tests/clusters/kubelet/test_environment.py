from __future__ import annotations

from clusters.kubelet.environment import environment_of, gpu_lines
from clusters.kubelet.pods import containers_of
from tests.clusters.kubelet.pods_of_tests import container, pod


def merged(env, from_plugins) -> dict[str, str]:
    item = pod("p", container("main", env=env))
    item["metadata"]["annotations"] = {"ALIYUN_COM_GPU_MEM_IDX": "1"}
    return environment_of(item, containers_of(item)[0], from_plugins)


def test_the_pods_own_variable_wins_over_the_plugins() -> None:
    """A pod can take the plugin's variable away."""
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}, {"name": "MINE"}]

    assert merged(env, {"NVIDIA_VISIBLE_DEVICES": "0", "OTHER": "x"}) == {
        "NVIDIA_VISIBLE_DEVICES": "none",
        "OTHER": "x",
        "MINE": "",
    }


def test_fields_of_the_pod_are_known_and_other_sources_left_out() -> None:
    """Names, node and annotations are read; secrets are not."""
    paths = ["metadata.name", "spec.nodeName", "metadata.annotations['ALIYUN_COM_GPU_MEM_IDX']", "status.unknown"]
    env = [{"name": str(n), "valueFrom": {"fieldRef": {"fieldPath": path}}} for n, path in enumerate(paths)]
    env.append({"name": "secret", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}})

    assert merged(env, {}) == {"0": "p", "1": "n1", "2": "1"}


def test_gpu_variables_are_sorted_and_others_left_out() -> None:
    """The log of a container shows only what concerns cards."""
    environment = {"PATH": "/", "NVIDIA_VISIBLE_DEVICES": "0", "CGPU_DISABLE": "true", "ALIYUN_COM_GPU_MEM_IDX": "0"}

    assert gpu_lines(environment) == ["ALIYUN_COM_GPU_MEM_IDX=0", "CGPU_DISABLE=true", "NVIDIA_VISIBLE_DEVICES=0"]
