"""Decoding: what Go's decoder and encoder make of a body, by the fast walk and by the exact one."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kapi.codecs.reading import DecodingError, read_body
from kapi.machinery.gvk import GroupVersionKind
from kapi.schema import builtin
from kapi.schema.decode import decode, decode_tree
from kapi.schema.decode_exact import ExactDecoder
from kapi.schema.decode_fast import Unusual, walk_of
from kapi.schema.types import Kind, Type
from kapi.schema.zero import zero
from tests.examples import examples
from tests.growth.counting import lines, steepest

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
POD = GroupVersionKind("", "v1", "Pod")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
AUTOSCALER = GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler")


def decoded(
    text: str | bytes, kind: GroupVersionKind = CONFIG_MAP, validation: str = "Warn", media: str = "application/json"
) -> tuple[Any, list[str]]:
    data = text if isinstance(text, bytes) else text.encode()
    warnings: list[str] = []
    obj = decode(read_body(data, media, kind), kind, builtin.type_of(kind), validation, warnings.append)
    return obj, warnings


def refusal(text: str, kind: GroupVersionKind = CONFIG_MAP, validation: str = "Warn") -> str:
    with pytest.raises(DecodingError) as caught:
        decoded(text, kind, validation)
    return caught.value.message


def test_kind_and_version_are_filled_in() -> None:
    assert decoded('{"metadata":{"name":"a"}}')[0] == {
        "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"},
    }  # fmt: skip


@pytest.mark.parametrize("rest", ["", ',"unheard":1'], ids=["fast", "exact"])
def test_an_empty_list_that_means_something_stays(rest: str) -> None:
    obj, _ = decoded('{"spec":{"metrics":[],"behavior":{"scaleUp":{"policies":[]}}' + rest + "}}", AUTOSCALER)
    assert obj["spec"]["behavior"] == {"scaleUp": {"policies": []}}
    assert "metrics" not in obj["spec"]


def test_nulls_and_empty_values_disappear_as_go_has_it() -> None:
    obj, _ = decoded('{"metadata":{"name":"a","labels":{}},"data":{"k":null},"immutable":false,"binaryData":null}')
    assert obj["metadata"] == {"name": "a"}
    assert obj["data"] == {"k": ""}
    assert obj["immutable"] is False, "a pointer keeps its zero value"
    assert "binaryData" not in obj
    obj, _ = decoded('{"metadata":{"name":"a"},"data":{"k":null,"l":"YQ=="}}', GroupVersionKind("", "v1", "Secret"))
    assert obj["data"] == {"k": "", "l": "YQ=="}


def test_what_go_always_writes_appears() -> None:
    obj, _ = decoded('{"spec":{"selector":null}}', DEPLOYMENT)
    assert obj["spec"] == {"selector": None, "strategy": {}, "template": {"metadata": {}, "spec": {"containers": None}}}
    assert obj["status"] == {}
    assert obj["metadata"] == {}


def test_quantities_and_times_take_their_canonical_form() -> None:
    obj, _ = decoded(
        '{"metadata":{"deletionTimestamp":"2020-01-01T02:00:00+02:00"},'
        '"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":0.25,"memory":"1024Mi"}}}]}}',
        POD,
    )
    assert obj["metadata"]["deletionTimestamp"] == "2020-01-01T00:00:00Z"
    assert obj["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "250m", "memory": "1Gi"}}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"data":[]}', "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string"),
        ('{"data":{"k":1}}', "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"),
        ('{"metadata":{"name":1}}', "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string"),
        ('{"metadata":"x"}', "json: cannot unmarshal string into Go struct field ConfigMap.metadata of type v1.ObjectMeta"),
        ('{"binaryData":{"k":"***"}}', "illegal base64 data at input byte 0"),
        ('{"binaryData":{"k":"YQ="}}', "illegal base64 data at input byte 3"),
        ('{"immutable":"true","binaryData":{"k":"***"}}',
         "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool"),
        ('{"binaryData":{"k":"***"},"immutable":"true"}', "illegal base64 data at input byte 0"),
        ('{"binaryData":{"k":[1,"a"]}}', "json: cannot unmarshal string into Go struct field ConfigMap.binaryData of type uint8"),
        ('{"binaryData":{"":[-1]}}', "json: cannot unmarshal number -1 into Go struct field ConfigMap.binaryData of type uint8"),
        ('{"binaryData":{"k":[true]}}', "json: cannot unmarshal bool into Go struct field ConfigMap.binaryData of type uint8"),
        ('{"immutable":"true"}', "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool"),
    ],
)  # fmt: skip
def test_wrong_types_are_refused_with_gos_words(text: str, why: str) -> None:
    assert refusal(text) == f'ConfigMap in version "v1" cannot be handled as a ConfigMap: {why}'


def test_bytes_may_be_given_as_numbers() -> None:
    found = decoded('{"binaryData":{"k":[104,105,null],"e":[],"f":[0,255,0]}}')[0]["binaryData"]
    assert found == {"k": "aGkA", "e": "", "f": "AP8A"}
    for number in ("-1", "256", "true", "1.5"):
        with pytest.raises(DecodingError, match="of type uint8$"):
            decoded(f'{{"binaryData":{{"k":[{number}]}}}}')


@pytest.mark.parametrize("number", ["80.5", "1e2", "2147483648", "-2147483649", "3000000000", "99999999999999999999"])
def test_numbers_that_do_not_fit_are_quoted_as_they_were_written(number: str) -> None:
    text = f'{{"spec":{{"containers":[{{"name":"c","ports":[{{"containerPort":{number}}}]}}]}}}}'
    why = f"number {number} into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32"
    assert refusal(text, POD).endswith(why)


@pytest.mark.parametrize("rest", ["", ',"unheard":1'], ids=["fast", "exact"])
@pytest.mark.parametrize(("field", "end"), [("terminationGracePeriodSeconds", 2**63), ("priority", 2**31)])
def test_whole_numbers_have_as_many_bits_as_their_type(field: str, end: int, rest: str) -> None:
    for number in (end - 1, -end):
        assert decoded(f'{{"spec":{{"{field}":{number}}}{rest}}}', POD)[0]["spec"][field] == number
    for number in (end, -end - 1):
        assert f"cannot unmarshal number {number} into Go struct field" in refusal(
            f'{{"spec":{{"{field}":{number}}}{rest}}}', POD
        )


BOTH = (
    '{"metadata":{"name":"d","bogusMeta":1},"spec":{"bogusSpec":{"x":1,"x":2},"replicas":1,"replicas":2,'
    '"template":{"spec":{"containers":[{"name":"c","image":"i","imagee":"z","image":"j"}]}}},"metadata":{"name":"e"}}'
)
FOUND = [
    'unknown field "metadata.bogusMeta"',
    'unknown field "spec.bogusSpec"',
    'duplicate field "spec.replicas"',
    'unknown field "spec.template.spec.containers[0].imagee"',
    'duplicate field "spec.template.spec.containers[0].image"',
    'duplicate field "metadata"',
]


def test_unknown_and_duplicate_fields_are_reported_in_the_order_of_the_text() -> None:
    obj, warnings = decoded(BOTH, DEPLOYMENT)
    assert warnings == FOUND
    assert obj["spec"]["replicas"] == 2
    assert obj["spec"]["template"]["spec"]["containers"][0]["image"] == "j"
    assert obj["metadata"]["name"] == "e"


def test_strict_refuses_and_names_all_of_them() -> None:
    assert refusal(BOTH, DEPLOYMENT, "Strict").endswith("strict decoding error: " + ", ".join(FOUND))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ('"strategy":{"rollingUpdate":{"maxSurge":{}}}',
         "RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32"),
        ('"template":{"metadata":{"creationTimestamp":1}}', "ObjectMeta.spec.template.metadata.creationTimestamp of type string"),
    ],
)  # fmt: skip
def test_an_error_of_a_type_with_its_own_decoder_is_the_only_one(wrong: str, why: str) -> None:
    assert refusal('{"spec":{"replicas":"x",' + wrong + "}}", DEPLOYMENT).endswith(why)


def test_a_fields_name_is_quoted_as_go_does() -> None:
    assert decoded('{"a\\nb":1,"data":{"\\"":"1","\\"":"2"}}')[1] == [
        'unknown field "a\\nb"',
        r'duplicate field "data.\""',
    ]


def test_a_hundred_problems_are_named() -> None:
    text = "{" + ",".join(f'"x{number:03}":1' for number in range(150)) + "}"
    assert decoded(text)[1] == [f'unknown field "x{number:03}"' for number in range(100)]
    twice = '{"data":{' + ",".join(f'"x{number:03}":"1"' for number in range(150) for _ in range(2)) + "}}"
    assert decoded(twice)[1] == [f'duplicate field "data.x{number:03}"' for number in range(100)]


def test_ignore_says_nothing() -> None:
    assert decoded(BOTH, DEPLOYMENT, "Ignore")[1] == []


def test_a_second_map_is_decoded_into_the_first() -> None:
    for validation in ("Ignore", "Warn"):
        obj, _ = decoded('{"data":{"x":"1"},"data":{"y":"2"}}', validation=validation)
        assert obj["data"] == {"x": "1", "y": "2"}


def test_all_values_of_a_field_are_decoded_into_one_another() -> None:
    limits = '"limits":{"b":"1"},"limits":{"a":"1"}'
    text = (
        f'{{"spec":{{"resources":{{"limits":{{"c":"1"}}}},"resources":{{{limits}}},"nodeName":"n","resources":{{}}}}}}'
    )
    obj, warnings = decoded(text, POD)
    assert obj["spec"]["resources"] == {"limits": {"a": "1", "b": "1", "c": "1"}}
    assert warnings == ['duplicate field "spec.resources"', 'duplicate field "spec.resources.limits"']
    obj, _ = decoded(
        '{"metadata":{"name":"a"},"metadata":null,"spec":{"resources":{"claims":[]},"resources":null}}', POD
    )
    assert obj["metadata"] == {"name": "a"}, "null is no value of a struct"
    assert "resources" not in obj["spec"], "but of a pointer"


def test_a_field_that_is_given_often_takes_linear_time() -> None:
    def work(count: int) -> Any:
        text = ",".join(['"metadata":{"labels":{"b":"c"}},"data":{"a":"b"}'] * count)
        return lines(lambda: decoded("{" + text + "}"))

    growth, where = steepest(work(20), work(80), 100)
    assert growth < 6, where


def test_field_names_are_case_sensitive() -> None:
    assert decoded('{"Metadata":{"name":"a"}}')[1] == ['unknown field "Metadata"']


def test_duplicates_of_map_keys_are_found_even_when_spaced() -> None:
    assert decoded('{"data" : {"a" :"1", "a"\n:"2"}}')[1] == ['duplicate field "data.a"']


def test_text_that_looks_like_keys_is_no_duplicate() -> None:
    obj, warnings = decoded('{"data":{"a":"{\\"a\\":1,\\"a\\":2}"}}')
    assert warnings == []
    assert obj["data"] == {"a": '{"a":1,"a":2}'}


def test_yaml_reports_its_own_duplicates_first() -> None:
    text = "metadata: {name: a}\ndata:\n  k: a\n  k: b\nzz: 1\n"
    _, warnings = decoded(text, media="application/yaml")
    assert warnings == ['line 4: key "k" already set in map', 'unknown field "zz"']


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ('{"apiVersion":"v1","kind":"Secret"}', CONFIG_MAP, 'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion'),  # noqa: E501
        ('{"apiVersion":"v2","kind":"ConfigMap"}', CONFIG_MAP, 'ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for version "v2" in scheme "pkg/api/legacyscheme/scheme.go:30"'),  # noqa: E501
        ('{"apiVersion":"extensions/v1beta1","kind":"Deployment"}', DEPLOYMENT, "the API version in the data (extensions/v1beta1) does not match the expected API version (apps/v1)"),  # noqa: E501
        ('{"apiVersion":"a/b/c","kind":"ConfigMap"}', CONFIG_MAP, 'the object provided is unrecognized (must be of type ConfigMap): unexpected GroupVersion string: a/b/c ({"apiVersion":"a/b/c","kind":" ...)'),  # noqa: E501
        ("", CONFIG_MAP, "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"),  # noqa: E501
    ],
)  # fmt: skip
def test_objects_of_other_kinds_are_refused(text: str, kind: GroupVersionKind, why: str) -> None:
    assert refusal(text, kind) == why


def test_deeply_nested_schemas_do_not_crash() -> None:
    crd = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    schema = '{"properties":{"a":' * 500 + "{}" + "}}" * 500
    text = '{"spec":{"versions":[{"name":"v1","schema":{"openAPIV3Schema":' + schema + "}}]}}"
    try:
        decoded(text, crd)
    except DecodingError as error:
        assert "max depth" in error.message


def _values(type_: Type, depth: int) -> st.SearchStrategy[Any]:
    """Any body of a type, empty values and nulls included."""
    kind = type_.kind
    if kind is Kind.STRUCT:
        if depth <= 0 or not type_.fields:
            return st.just({})
        names = st.lists(st.sampled_from(sorted(type_.fields)), unique=True, max_size=3)
        return names.flatmap(
            lambda chosen: st.fixed_dictionaries(
                {name: st.none() | _values(type_.fields[name].type, depth - 1) for name in chosen}
            )
        )
    if kind is Kind.MAP:
        assert type_.elem is not None
        return st.dictionaries(st.sampled_from(["a", "b"]), _values(type_.elem, depth - 1), max_size=2)
    if kind is Kind.LIST:
        assert type_.elem is not None
        return st.lists(_values(type_.elem, depth - 1), max_size=2)
    plain: dict[Kind, st.SearchStrategy[Any]] = {
        Kind.STRING: st.sampled_from(["", "x", "é"]),
        Kind.DURATION: st.just("1s"),
        Kind.INTEGER: st.sampled_from([0, 1, -1]),
        Kind.NUMBER: st.sampled_from([0, 1.5]),
        Kind.BOOLEAN: st.booleans(),
        Kind.QUANTITY: st.sampled_from(["0", "1Gi", "1000m", 3]),
        Kind.INT_OR_STRING: st.sampled_from([0, 80, "", "http"]),
        Kind.TIME: st.just("2020-01-01T01:00:00+01:00"),
        Kind.MICRO_TIME: st.just("2020-01-01T00:00:00.000001Z"),
        Kind.BYTES: st.sampled_from(["", "YQ=="]),
        Kind.ANY: st.just({}) if type_.unions else st.sampled_from([{"a": {"b": [1]}}, {}]),
    }
    return plain[kind]


_KINDS = sorted(builtin.names_by_kind(), key=str)


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(_KINDS).flatmap(lambda kind: st.tuples(st.just(kind), _values(builtin.type_of(kind), 4))))
def test_decoding_is_stable_and_both_walks_agree(case: tuple[GroupVersionKind, Any]) -> None:
    kind, body = case
    type_ = builtin.type_of(kind)
    exact = ExactDecoder()
    once = exact.decode(body, type_)
    assert exact.problems == []
    assert ExactDecoder().decode(once, type_) == once, "what was written is read as itself"
    raw = orjson.dumps(body)
    assert decode_tree(orjson.loads(raw), type_, strict=True) == (once, [])


@pytest.mark.parametrize("name", sorted(builtin.definitions()))
def test_every_definition_has_a_zero_value_that_decodes_to_itself(name: str) -> None:
    type_ = builtin.definition(name)
    empty = zero(type_)
    if type_.kind is Kind.STRUCT:
        assert ExactDecoder().decode({}, type_) == empty
        assert walk_of(type_)({}, [0]) == empty


def test_a_value_that_reads_itself_is_told_before_one_of_the_wrong_kind() -> None:
    """Go's decoder goes on after a value of the wrong kind, and stops at one that cannot read its text."""
    text = '{"spec":{"containers":[{"name":1,"image":2,"resources":{"limits":{"cpu":"x"}}}]}}'
    assert refusal(text, POD).endswith("quantities must match the regular expression "
                                       "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")  # fmt: skip
    text = '{"spec":{"containers":[{"name":1,"image":2}]}}'
    assert refusal(text, POD).endswith(
        "cannot unmarshal number into Go struct field Container.spec.containers.name of type string"
    )


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ('{"volumes":[{"configMap":"x"}]}', "Volume.spec.volumes.VolumeSource.configMap"),
        ('{"volumes":[{"name":{}}]}', "Volume.spec.volumes.name"),
        ('{"containers":[{"livenessProbe":{"exec":1}}]}', "Probe.spec.containers.livenessProbe.ProbeHandler.exec"),
        (
            '{"ephemeralContainers":[{"image":1}]}',
            "EphemeralContainer.spec.ephemeralContainers.EphemeralContainerCommon.image",
        ),
    ],
)
def test_structs_on_the_way_to_a_field_are_named(spec: str, field: str) -> None:
    assert f"into Go struct field {field} of type" in refusal(f'{{"spec":{spec}}}', POD)


def test_a_schema_in_a_schema_is_named_from_the_top() -> None:
    definition = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    text = '{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"items":{"properties":{"a":{"type":[]}}}}}}]}}'
    path = "JSONSchemaProps.spec.versions.schema.openAPIV3Schema.items.properties.type"
    assert refusal(text, definition).endswith(f"cannot unmarshal array into Go struct field {path} of type string")


def test_the_path_of_a_wrong_type_names_the_embedded_struct() -> None:
    kind = GroupVersionKind("networking.k8s.io", "v1", "Ingress")
    said = refusal('{"spec":{"rules":[{"http":{"paths":[{"path":1}]}}]}}', kind)
    where = "HTTPIngressPath.spec.rules.IngressRuleValue.http.paths.path"
    assert said.endswith(f": json: cannot unmarshal number into Go struct field {where} of type string")


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"args": [1]}]},
        {"containers": [{"args": [None]}]},
        {"containers": ["x"]},
        {"containers": [None]},
        {"nodeSelector": {"a": 1}},
        {"nodeSelector": {"a": None}},
        {"securityContext": {"supplementalGroups": ["1"]}},
        {"securityContext": {"supplementalGroups": [True]}},
        {"securityContext": {"supplementalGroups": [None]}},
        {"containers": {}},
        {"nodeSelector": []},
        {"hostNetwork": 1},
        {"nodeName": 1},
        {"terminationGracePeriodSeconds": True},
        {"other": 1},
    ],
    ids=str,
)
def test_what_is_unusual_is_left_to_the_exact_decoder(spec: dict[str, Any]) -> None:
    walk = walk_of(builtin.type_of(POD))
    walk({"spec": {"containers": [{"args": ["a"]}], "nodeSelector": {"a": ""}, "nodeName": None}}, [0])
    with pytest.raises(Unusual):
        walk({"spec": spec}, [0])


LEASE = GroupVersionKind("coordination.k8s.io", "v1", "Lease")
REVISION = GroupVersionKind("apps", "v1", "ControllerRevision")
DEFINITION = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
PLACES = [
    (CONFIG_MAP, '{"immutable":%s}'), (CONFIG_MAP, '{"data":{"k":%s}}'), (CONFIG_MAP, '{"binaryData":{"k":%s}}'),
    (CONFIG_MAP, '{"metadata":{"name":%s}}'), (CONFIG_MAP, '{"metadata":{"labels":%s}}'), (CONFIG_MAP, '{"metadata":%s}'),
    (CONFIG_MAP, '{"metadata":{"finalizers":%s}}'), (CONFIG_MAP, '{"metadata":{"deletionTimestamp":%s}}'),
    (CONFIG_MAP, '{"metadata":{"creationTimestamp":%s}}'), (DEPLOYMENT, '{"spec":{"strategy":%s}}'),
    (CONFIG_MAP, '{"metadata":{"generation":%s}}'), (CONFIG_MAP, '{"metadata":{"managedFields":[{"fieldsV1":%s}]}}'),
    (CONFIG_MAP, '{"metadata":{"ownerReferences":[{"controller":%s}]}}'), (CONFIG_MAP, '{"data":%s}'),
    (LEASE, '{"spec":{"renewTime":%s}}'), (LEASE, '{"spec":{"leaseDurationSeconds":%s}}'), (REVISION, '{"data":%s}'),
    (DEPLOYMENT, '{"spec":{"replicas":%s}}'), (DEPLOYMENT, '{"spec":{"strategy":{"rollingUpdate":{"maxSurge":%s}}}}'),
    (DEPLOYMENT, '{"spec":{"strategy":{"rollingUpdate":%s}}}'), (DEPLOYMENT, '{"spec":{"template":{"spec":{"volumes":%s}}}}'),
    (DEPLOYMENT, '{"spec":{"template":{"spec":{"containers":[%s]}}}}'),
    (DEPLOYMENT, '{"spec":{"template":{"spec":{"containers":[{"resources":{"limits":{"cpu":%s}}}]}}}}'),
    (DEPLOYMENT, '{"spec":{"template":{"spec":{"securityContext":%s}}}}'),
    (DEFINITION, '{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"maximum":%s}}}]}}'),
    (DEFINITION, '{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"default":%s}}}]}}'),
    (DEFINITION, '{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"items":%s}}}]}}'),
    (DEFINITION, '{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"additionalProperties":%s}}}]}}'),
]  # fmt: skip
VALUES = [
    "null", '""', '"a"', '"YQ=="', '"1Gi"', '"0.1m"', '"2020-01-01T02:00:00+02:00"', '"2020-01-01T00:00:00.123456789Z"',
    '"0001-01-01T00:00:00Z"', "true", "false", "0", "-1", "1.0", "1.5", "1e3",
    "2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807",
    "9007199254740992", "-9007199254740992", "9007199254740993", "-9007199254740993", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809",
    "1e400", "[]", "[null]", '["a"]', "[1]", "[300]",
    "[{}]", '[{"name":"a","emptyDir":{}}]', "{}", '{"a":"b"}', '{"a":null}', '{"a":1}', '{"name":"a","image":""}', '{"type":"a"}',
]  # fmt: skip


@pytest.mark.parametrize(("kind", "place"), PLACES, ids=lambda part: part if isinstance(part, str) else "")
def test_both_decoders_read_and_refuse_the_same(kind: GroupVersionKind, place: str) -> None:
    """The exact one is asked where a text has something unknown; all texts of errors are its own."""

    def answer(text: str) -> Any:
        try:
            return decoded(text, kind)[0]
        except DecodingError as error:
            return error.message

    different = [
        value for value in VALUES
        if answer(place % value) != answer((place % value).removesuffix("}") + ',"unheard":1}')
    ]  # fmt: skip
    assert different == []
