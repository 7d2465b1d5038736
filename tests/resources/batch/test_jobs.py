"""Jobs and cron jobs: selectors, schedules, sets of indexes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from kapi.machinery import tree
from kapi.machinery.tree import Object
from kapi.resources.batch import cronjobs, jobs
from kapi.resources.batch.cronjobs import ScheduleError, check_schedule, is_zone
from kapi.resources.batch.job_spec import IndexesError, check_apart, count_indexes
from kapi.resources.definition import StrategyContext
from kapi.testing.memory_api import MemoryAPI, succeed
from tests.resources import strategy_kit

CTX = StrategyContext("n", "j", now="2024-01-01T00:00:00Z")
JOB = jobs.RESOURCE.strategy


def pod(policy: str = "Never") -> Object:
    return {"spec": {"restartPolicy": policy, "containers": [{"name": "c", "image": "i"}]}}


def job(**spec: Any) -> Object:
    obj: Object = {
        "metadata": {"name": "j", "namespace": "n", "uid": "u", "resourceVersion": "1"},
        "spec": {"template": pod(), **spec},
    }
    JOB.default(obj)
    JOB.prepare_for_create(obj, CTX)
    return obj


def problems(**spec: Any) -> list[str]:
    return [str(error) for error in JOB.validate(job(**spec), CTX)]


def after(old: Object, change: Callable[[Object], object]) -> list[str]:
    new = tree.copy(old)
    change(new)
    JOB.prepare_for_update(new, old, CTX)
    return [str(error) for error in JOB.validate_update(new, old, CTX)]


def test_defaults_and_the_generated_selector() -> None:
    made = job()
    spec = made["spec"]
    assert (spec["completions"], spec["parallelism"], spec["backoffLimit"]) == (1, 1, 6)
    assert (spec["completionMode"], spec["suspend"], spec["podReplacementPolicy"]) == (
        "NonIndexed", False, "TerminatingOrFailed",
    )  # fmt: skip
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}
    labels = spec["template"]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/job-name"] == labels["job-name"] == "j"
    assert labels["controller-uid"] == "u"
    assert problems() == []


@pytest.mark.parametrize(("name", "shared"), [({"name": "j"}, True), ({"generateName": "j-"}, False)])
def test_a_job_with_a_generated_name_has_only_the_templates_own_labels(name: Object, shared: bool) -> None:
    api = succeed(MemoryAPI.started())
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }
    answer = api.ask(
        "POST", "/apis/batch/v1/namespaces/default/jobs", {"metadata": name, "spec": {"template": template}}
    )
    assert ("job-name" in answer.json["metadata"]["labels"]) is shared
    assert "job-name" in answer.json["spec"]["template"]["metadata"]["labels"]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"parallelism": -1}, "spec.parallelism: Invalid value: -1"),
        ({"backoffLimit": -1}, "spec.backoffLimit: Invalid value: -1"),
        (
            {"template": pod("Always")},
            'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
        ),
        ({"completionMode": "Odd"}, 'spec.completionMode: Unsupported value: "Odd"'),
        (
            {"completionMode": "Indexed", "parallelism": 2},
            "spec.completions: Required value: when completion mode is Indexed",
        ),
        ({"ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished: Invalid value: -1"),
        ({"managedBy": "x"}, 'spec.managedBy: Invalid value: "x": must be a domain-prefixed path'),
        ({"selector": {"matchLabels": {"a": "b"}}}, "spec.selector: Invalid value: "),
    ],
)
def test_what_jobs_may_not_be(spec: Object, text: str) -> None:
    lines = problems(**spec)
    assert any(line.startswith(text) for line in lines), lines


def test_what_a_job_keeps() -> None:
    old = job()
    assert after(old, lambda obj: obj["spec"].update(parallelism=3, suspend=True)) == []
    for change in ({"completions": 5}, {"completionMode": "Indexed"}):
        assert any("field is immutable" in line for line in after(old, lambda obj, c=change: obj["spec"].update(c)))
    lines = after(old, lambda obj: obj["spec"]["template"]["spec"]["containers"][0].update(image="x"))
    assert any(line.startswith("spec.template: Invalid value") for line in lines)


DIRECTIVES, RESOURCES = "MutableSchedulingDirectivesForSuspendedJobs", "MutablePodResourcesForSuspendedJobs"
BEGAN: Object = {"startTime": "2024-01-01T00:00:00Z"}
SUSPENDED: Object = {"conditions": [{"type": "Suspended", "status": "True"}]}


@pytest.mark.parametrize(
    ("suspend", "status", "gates", "node", "cpu"),
    [
        (True, {}, {}, True, True), (False, {}, {}, False, False), (True, BEGAN, {}, False, False),
        (True, {**BEGAN, **SUSPENDED}, {}, True, True), (True, {"active": 1}, {}, False, False),
        (True, {**BEGAN, **SUSPENDED, "active": 1}, {}, False, False), (False, SUSPENDED, {}, False, False),
        (True, {}, {DIRECTIVES: False}, True, True), (True, {"active": 1}, {DIRECTIVES: False}, True, False),
        (True, {**BEGAN, **SUSPENDED}, {DIRECTIVES: False}, False, True), (False, {}, {DIRECTIVES: False}, False, False),
        (True, {}, {RESOURCES: False}, True, False), (True, {}, {DIRECTIVES: False, RESOURCES: False}, True, False),
    ],
)  # fmt: skip
def test_when_the_pods_of_a_job_may_become_others(
    suspend: bool, status: Object, gates: Object, node: bool, cpu: bool
) -> None:
    """Where they run, and how much they ask for."""
    ctx = StrategyContext("n", "j", now="2024-01-01T00:00:00Z", features=gates)
    old = {**job(suspend=suspend), "status": status}
    for change, good in (
        (lambda pod: pod.update(nodeSelector={"a": "b"}), node),
        (lambda pod: pod.update(tolerations=[{"key": "a", "operator": "Exists"}]), node),
        (lambda pod: pod["containers"][0].update(resources=CPU), cpu),
    ):
        new = tree.copy(old)
        change(new["spec"]["template"]["spec"])
        JOB.prepare_for_update(new, old, ctx)
        texts = [str(error) for error in JOB.validate_update(new, old, ctx)]
        assert (not any("field is immutable" in text for text in texts)) is good


CPU = {"requests": {"cpu": "1"}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NEAR, FAR = (
    {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]}}
    for zone in ("near", "far")
)


def _set_affinity(obj: Object, affinity: Object | None) -> None:
    pod = obj["spec"]["template"]["spec"]
    pod.pop("affinity", None)
    if affinity is not None:
        pod["affinity"] = affinity


@pytest.mark.parametrize("part", ["containers", "initContainers"])
@pytest.mark.parametrize(
    ("containers", "refused"),
    [
        ([{"name": "a", "resources": CPU}, {"name": "b"}], False),
        ([{"name": "a"}, {"name": "b", "resources": CPU}], False),
        ([{"name": "b", "resources": CPU}, {"name": "a"}], True),
        ([{"name": "a", "resources": CPU}], True),
        ([{"name": "a", "resources": CPU, "image": "x"}, {"name": "b"}], True),
    ],
    ids=["of the first", "of the last", "in another order", "of fewer", "with another image"],
)
def test_resources_of_a_suspended_job_may_change(part: str, containers: list[Object], refused: bool) -> None:
    def full(names: list[Object]) -> list[Object]:
        return [{"image": "i", "resources": {}, **each} for each in names]

    old = job(suspend=True)
    old["spec"]["template"]["spec"][part] = full([{"name": "a"}, {"name": "b"}])
    running = {**old, "spec": {**old["spec"], "suspend": False}}
    new = full(containers)

    def change(obj: Object) -> None:
        obj["spec"]["template"]["spec"][part] = new

    found = [text for text in after(old, change) if "field is immutable" in text]
    assert [text.partition(":")[0] for text in found] == ["spec.template.spec"] * refused
    found = [text for text in after(running, change) if "field is immutable" in text]
    assert [text.partition(":")[0] for text in found] == ["spec.template"]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"nodeAffinity": NEAR}, None),
        ({"nodeAffinity": NEAR}, {"nodeAffinity": FAR}),
        (None, {"nodeAffinity": NEAR}),
        ({"nodeAffinity": NEAR, "podAffinity": {}}, {"podAffinity": {}}),
    ],
    ids=["removed", "changed", "added", "removed beside another affinity"],
)
def test_where_pods_of_a_suspended_job_run_may_change(before: Object | None, now: Object | None) -> None:
    old = job(suspend=True)
    _set_affinity(old, before)
    found = after(old, lambda obj: _set_affinity(obj, now))
    assert [text for text in found if "field is immutable" in text] == []
    running = {**old, "spec": {**old["spec"], "suspend": False}}
    found = after(running, lambda obj: _set_affinity(obj, now))
    assert [text.partition(":")[0] for text in found if "field is immutable" in text] == ["spec.template"]


@pytest.mark.parametrize("now", [None, {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}])
def test_affinity_to_pods_stays_in_a_suspended_job(now: Object | None) -> None:
    old = job(suspend=True)
    _set_affinity(old, {"podAffinity": {REQUIRED: [{"topologyKey": "a", "labelSelector": {}}]}})
    found = after(old, lambda obj: _set_affinity(obj, now))
    assert any(text.startswith("spec.template") and "field is immutable" in text for text in found)


@pytest.mark.parametrize(
    "schedule", ["* * * * *", "*/5 0-6 1,15 jan mon", "@hourly", "@every 1h30m", "0 0 ? * SUN", "TZ=UTC 0 0 * * *"]
)
def test_schedules(schedule: str) -> None:
    check_schedule(schedule)


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        ("TZ=UTC", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
        ("TZ=Mars/Base * * * * *", "provided bad location Mars/Base: unknown time zone Mars/Base"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("@never", "unrecognized descriptor: @never"),
        ("a * * * *", 'failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax'),
        ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("*/1/2 * * * *", "too many slashes: */1/2"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
    ],
)
def test_what_is_no_schedule(schedule: str, text: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        check_schedule(schedule)
    assert str(caught.value) == text


@pytest.mark.parametrize(("place", "first", "last"), [(0, 0, 59), (1, 0, 23), (2, 1, 31), (3, 1, 12), (4, 0, 6)])
def test_the_range_of_each_field_of_a_schedule(place: int, first: int, last: int) -> None:
    def accepts(text: str) -> bool:
        try:
            check_schedule(" ".join([*["*"] * place, text, *["*"] * (4 - place)]))
        except ScheduleError:
            return False
        return True

    assert [number for number in range(70) if accepts(str(number))] == list(range(first, last + 1))
    assert accepts(f"{first}-{last}/{last}") and not accepts(f"{first}-{last + 1}")


MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"


@pytest.mark.parametrize(("place", "names"), [(3, MONTHS), (4, "sun mon tue wed thu fri sat")])
def test_the_names_in_a_schedule_are_in_order(place: int, names: str) -> None:
    for earlier, later in pairwise(names.split()):
        check_schedule(" ".join([*["*"] * place, f"{earlier}-{later.upper()}", *["*"] * (4 - place)]))
    first, *_, last = names.split()
    with pytest.raises(ScheduleError, match="beyond end of range"):
        check_schedule(" ".join([*["*"] * place, f"{last}-{first}", *["*"] * (4 - place)]))


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        ("5", 'missing unit in duration "5"'),
        ("5x", 'unknown unit "x" in duration "5x"'),
        ("", 'invalid duration ""'),
        ("9999999999h", 'invalid duration "9999999999h"'),
    ],
)
def test_what_is_no_duration(duration: str, text: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        check_schedule(f"@every {duration}")
    assert str(caught.value) == f"failed to parse duration @every {duration}: time: {text}"


def test_zones() -> None:
    assert is_zone("Europe/Berlin") and is_zone("Etc/UTC")
    assert not is_zone("Europe/Nowhere") and not is_zone("../etc/passwd")


def test_cron_jobs() -> None:
    strategy = cronjobs.RESOURCE.strategy

    def told(**spec: Any) -> list[str]:
        obj: Object = {
            "metadata": {"name": "j", "namespace": "n", "uid": "u"},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": pod()}}, **spec},
        }
        strategy.default(obj)
        strategy.prepare_for_create(obj, CTX)
        return [str(error) for error in strategy.validate(obj, CTX)]

    assert told() == []
    assert told(schedule="")[0] == "spec.schedule: Required value"
    assert told(schedule="TZ=UTC * * * * *")[0].startswith("spec.schedule: Invalid value")
    assert told(timeZone="Mars/Base")[0] == 'spec.timeZone: Invalid value: "Mars/Base": unknown time zone Mars/Base'
    assert told(concurrencyPolicy="Maybe")[0].startswith('spec.concurrencyPolicy: Unsupported value: "Maybe"')
    assert told(schedule="x") == ['spec.schedule: Invalid value: "x": expected exactly 5 fields, found 1: [x]']
    spec: Object = {
        "template": pod(),
        "backoffLimit": -1,
        "selector": {"matchLabels": {"a": "b"}},
        "manualSelector": True,
    }
    place = "spec.jobTemplate.spec"
    assert told(jobTemplate={"spec": spec}) == [
        f"{place}.backoffLimit: Invalid value: -1: must be greater than or equal to 0",
        f'{place}.selector: Invalid value: {{"matchLabels":{{"a":"b"}}}}: `selector` will be auto-generated',
        f'{place}.manualSelector: Unsupported value: true: supported values: "nil", "false"',
    ]
    for name in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        assert told(**{name: 0}) == []
        assert told(**{name: -1}) == [f"spec.{name}: Invalid value: -1: must be greater than or equal to 0"]
    assert told(startingDeadlineSeconds=-1)[0].startswith("spec.startingDeadlineSeconds: Invalid value: -1")


def test_a_zone_is_in_the_schedule_or_beside_it() -> None:
    row, spec = cronjobs.RESOURCE, {"jobTemplate": {"spec": {"template": pod()}}}
    old = strategy_kit.made(row, spec={**spec, "schedule": "TZ=UTC * * * * *"})
    assert strategy_kit.changes(row, old, spec={**old["spec"], "suspend": True}) == []
    assert strategy_kit.changes(row, old, spec={**old["spec"], "timeZone": "Etc/UTC"}) == [
        'spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use both timeZone field and TZ or CRON_TZ in schedule'
    ]


def test_indexes() -> None:
    assert (count_indexes("", 5), count_indexes("0,2-4", 5)) == (0, 4)
    check_apart("0,2", "1,3", 5)
    for text in ("5", "a", "2,1", "3-2", "0-"):
        with pytest.raises(IndexesError):
            count_indexes(text, 5)
    with pytest.raises(IndexesError):
        check_apart("0-2", "2", 5)
