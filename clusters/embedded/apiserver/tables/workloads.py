"""The columns of what makes pods. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from clusters.embedded.apiserver.api_objects import Object, is_deleting, metadata_of
from clusters.embedded.apiserver.tables.columns import (
    AGE,
    NAME,
    NONE,
    SELECTOR,
    WIDE,
    Column,
    at,
    human_duration,
    label_texts,
    list_at,
    moment,
    number,
    number_at,
    selector_text,
    since,
    template_columns,
    text,
    text_at,
)

_TEMPLATE: Final = template_columns("spec", "template")


def _ready(item: Object) -> str:
    return f"{number_at(item, 'status', 'readyReplicas')}/{number_at(item, 'spec', 'replicas')}"


def _count(name: str, description: str, *path: str, type_: str = "integer") -> Column:
    return number(name, description, lambda item: number_at(item, *path), type_)


DEPLOYMENTS: Final = (
    NAME,
    text("Ready", "pods that are ready, of those wanted", _ready),
    _count("Up-to-date", "pods of the newest template", "status", "updatedReplicas", type_="string"),
    _count("Available", "pods that have been ready long enough", "status", "availableReplicas", type_="string"),
    AGE,
    *_TEMPLATE,
    text("Selector", "which pods are meant", lambda item: selector_text(at(item, "spec", "selector")), WIDE),
)
REPLICA_SETS: Final = (
    NAME,
    _count("Desired", "pods wanted", "spec", "replicas"),
    _count("Current", "pods there are", "status", "replicas"),
    _count("Ready", "pods that are ready", "status", "readyReplicas"),
    AGE,
    *_TEMPLATE,
    SELECTOR,
)
STATEFUL_SETS: Final = (NAME, text("Ready", "pods that are ready, of those wanted", _ready), AGE, *_TEMPLATE)
DAEMON_SETS: Final = (
    NAME,
    _count("Desired", "nodes that should run one", "status", "desiredNumberScheduled"),
    _count("Current", "nodes that have one", "status", "currentNumberScheduled"),
    _count("Ready", "pods that are ready", "status", "numberReady"),
    _count("Up-to-date", "pods of the newest template", "status", "updatedNumberScheduled"),
    _count("Available", "pods that have been ready long enough", "status", "numberAvailable"),
    text(
        "Node Selector",
        "on which nodes",
        lambda item: label_texts(at(item, "spec", "template", "spec", "nodeSelector")),
    ),
    AGE,
    *_TEMPLATE,
    SELECTOR,
)


def _owner(item: Object) -> str:
    for owner in metadata_of(item).get("ownerReferences") or []:
        if owner.get("controller"):
            group = str(owner.get("apiVersion", "")).rpartition("/")[0]
            return f"{owner.get('kind', '')}{'.' if group else ''}{group}".lower() + f"/{owner.get('name', '')}"
    return NONE


CONTROLLER_REVISIONS: Final = (
    NAME,
    text("Controller", "whose state it is", _owner),
    _count("Revision", "its number", "revision", type_="string"),
    AGE,
)


def _completions(item: Object) -> str:
    done, wanted = number_at(item, "status", "succeeded"), at(item, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = number_at(item, "spec", "parallelism")
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _duration(item: Object, now: datetime) -> str:
    start = moment(at(item, "status", "startTime"))
    end = moment(at(item, "status", "completionTime")) or now
    return "" if start is None else human_duration(end - start)


def _job_status(item: Object) -> str:
    met = {one.get("type") for one in list_at(item, "status", "conditions") if one.get("status") == "True"}
    words = (("Complete", "Complete"), ("Failed", "Failed"), (None, "Terminating"), ("Suspended", "Suspended"))
    later = (("FailureTarget", "FailureTarget"), ("SuccessCriteriaMet", "SuccessCriteriaMet"))
    for condition, word in (*words, *later):
        if condition in met or (condition is None and is_deleting(item)):
            return word
    return "Running"


JOBS: Final = (
    NAME,
    text("Status", "how far it is", _job_status),
    text("Completions", "pods that ended well, of those wanted", _completions),
    Column("Duration", "how long it has run", _duration),
    AGE,
    *_TEMPLATE,
    SELECTOR,
)


def _last_schedule(item: Object, now: datetime) -> str:
    last = at(item, "status", "lastScheduleTime")
    return since(last, now) if last else NONE


CRON_JOBS: Final = (
    NAME,
    text("Schedule", "when it makes a job", lambda item: text_at(item, "spec", "schedule")),
    text("Timezone", "of the schedule", lambda item: text_at(item, "spec", "timeZone") or NONE),
    Column(
        "Suspend",
        "whether it makes none for now",
        lambda item, _: "True" if at(item, "spec", "suspend") else "False",
        type="boolean",
    ),
    number("Active", "jobs that run", lambda item: len(list_at(item, "status", "active"))),
    Column("Last Schedule", "when it last made one", _last_schedule),
    AGE,
    *template_columns("spec", "jobTemplate", "spec", "template"),
    text(
        "Selector",
        "which pods are meant",
        lambda item: selector_text(at(item, "spec", "jobTemplate", "spec", "selector")) or NONE,
        WIDE,
    ),
)
SCALES: Final = (
    Column("Name", "what the object is called", NAME.show),
    _count("Desired", "pods wanted", "spec", "replicas"),
    _count("Available", "pods there are", "status", "replicas"),
    AGE,
)
