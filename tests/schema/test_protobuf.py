"""Request bodies in protobuf become the tree that the same object has in JSON."""

from __future__ import annotations

import struct

import pytest

from kapi.machinery.gvk import GroupVersionKind
from kapi.machinery.time import of_unix
from kapi.schema.protobuf import decode
from kapi.schema.protobuf_wire import ProtobufError

POD = GroupVersionKind("", "v1", "Pod")


def varint(value: int) -> bytes:
    out = b""
    value &= 0xFFFFFFFFFFFFFFFF
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def data(field: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value)


def body(version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + data(1, data(1, version) + data(2, kind)) + data(2, raw)


def test_a_pod_with_inlined_structs_quantities_and_pointers() -> None:
    probe = data(1, data(2, data(1, "/healthz") + data(2, number(1, 1) + data(3, "http")))) + number(2, 5)
    limits = data(1, data(1, "cpu") + data(2, data(1, "100m")))
    container = data(1, "c") + data(2, "busybox") + data(8, limits) + data(10, probe)
    volume = data(1, "v") + data(2, data(2, b""))  # emptyDir, inlined through VolumeSource
    spec = data(1, volume) + data(2, container) + number(4, 0)  # terminationGracePeriodSeconds: a pointer to zero
    meta = data(1, "p") + data(11, data(1, "app") + data(2, "web")) + data(8, number(1, 86400))
    tree = decode(body("v1", "Pod", data(1, meta) + data(2, spec)), POD)
    assert tree["kind"] == "Pod" and tree["apiVersion"] == "v1"
    assert tree["metadata"] == {"name": "p", "labels": {"app": "web"}, "creationTimestamp": "1970-01-02T00:00:00Z"}
    assert tree["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]
    assert tree["spec"]["terminationGracePeriodSeconds"] == 0
    made = tree["spec"]["containers"][0]
    assert made["resources"] == {"limits": {"cpu": "100m"}}
    assert made["livenessProbe"] == {"httpGet": {"path": "/healthz", "port": "http"}, "initialDelaySeconds": 5}


def test_bytes_become_base64_and_int_or_string_a_number() -> None:
    secret = decode(
        body("v1", "Secret", data(2, data(1, "k") + data(2, b"\x00\xff"))), GroupVersionKind("", "v1", "Secret")
    )
    assert secret["data"] == {"k": "AP8="}
    port = data(1, "http") + number(3, 80) + data(4, number(1, 0) + number(2, 8080))
    service = decode(body("v1", "Service", data(2, data(1, port))), GroupVersionKind("", "v1", "Service"))
    assert service["spec"]["ports"] == [{"name": "http", "port": 80, "targetPort": 8080}]


def test_negative_numbers_and_unknown_fields() -> None:
    kind = GroupVersionKind("scheduling.k8s.io", "v1", "PriorityClass")
    tree = decode(body("scheduling.k8s.io/v1", "PriorityClass", number(2, -5) + data(200, "newer")), kind)
    assert tree["value"] == -5 and set(tree) == {"kind", "apiVersion", "value"}


def test_what_the_envelope_does_not_say_is_as_wanted() -> None:
    assert decode(b"k8s\x00" + data(2, b""), POD)["kind"] == "Pod"


@pytest.mark.parametrize(
    "raw",
    [
        b"{}",
        b"",
        b"k8s\x00",
        b"k8s\x00\xff",
        body("v1", "Pod", b"\x0a\x05ab"),
        body("v1", "Pod", number(1, 7)),
        body("example.com/v1", "Widget", b""),
    ],
)
def test_what_is_no_message_is_refused(raw: bytes) -> None:
    with pytest.raises(ProtobufError):
        decode(raw, POD)


@pytest.mark.parametrize(
    ("seconds", "nanos", "shown"),
    [
        (0, 0, "1970-01-01T00:00:00.000000Z"),
        (-1, 0, "1969-12-31T23:59:59.000000Z"),
        (-1, 999_999_999, "1969-12-31T23:59:59.999999Z"),
        (-59_000_000_000, 1_000, "0100-05-13T15:06:40.000001Z"),
        (-62_135_596_800, 0, None),  # Go's zero time
        (-62_135_596_799, 0, "0001-01-01T00:00:01.000000Z"),
        (253_402_300_799, 999_999_999, "9999-12-31T23:59:59.999999Z"),
        (951_782_400, 0, "2000-02-29T00:00:00.000000Z"),
    ],
)
def test_times_of_every_age(seconds: int, nanos: int, shown: str | None) -> None:
    moment = number(1, seconds) + number(2, nanos)
    lease = GroupVersionKind("coordination.k8s.io", "v1", "Lease")
    meta = data(1, "l") + data(8, moment)
    tree = decode(body("coordination.k8s.io/v1", "Lease", data(1, meta) + data(2, data(4, moment))), lease)
    assert tree["spec"].get("renewTime") == shown
    assert tree["metadata"].get("creationTimestamp") == (None if shown is None else shown[:19] + "Z")


def test_times_beyond_any_calendar_are_text_too() -> None:
    assert of_unix(253_402_300_800) == "10000-01-01T00:00:00"
    assert of_unix(-62_135_596_801) == "0000-12-31T23:59:59"
    assert of_unix(-62_167_219_201) == "-0001-12-31T23:59:59"
    for extreme in (-(1 << 63), (1 << 63) - 1):
        assert of_unix(extreme).endswith(("T08:29:52", "T15:30:07"))


MAP = GroupVersionKind("", "v1", "ConfigMap")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x00", "proto: ConfigMap: illegal tag 0 (wire type 0)"),
        (b"\x07", "proto: ConfigMap: illegal tag 0 (wire type 7)"),
        (varint(0xFFFFFFFF << 3), "proto: ConfigMap: illegal tag -1 (wire type 34359738360)"),
        (b"\x14", "proto: ConfigMap: wiretype end group for non-group"),
        (b"\x13\x14", "proto: wrong wireType = 3 for field Data"),
        (number(1, 1), "proto: wrong wireType = 0 for field ObjectMeta"),
        (data(1, number(1, 1)), "proto: wrong wireType = 0 for field Name"),
        (data(1, number(5, 1)), "proto: wrong wireType = 0 for field UID"),
        (data(1, data(8, data(1, "x"))), "proto: wrong wireType = 2 for field Seconds"),
        (b"\x0a\x05ab", "unexpected EOF"),
        (b"\x20", "unexpected EOF"),
        (b"\x7f", "proto: illegal wireType 7"),
        (b"\x7b\x08\x01", "unexpected EOF"),  # a group without its end
        (b"\x0a" + b"\xff" * 9 + b"\x01", "proto: negative length found during unmarshaling"),
        (b"\x78" + b"\xff" * 10 + b"\x01", "proto: integer overflow"),
    ],
)
def test_what_a_message_cannot_be_is_told_as_the_generated_code_tells_it(raw: bytes, text: str) -> None:
    with pytest.raises(ProtobufError) as caught:
        decode(body("v1", "ConfigMap", raw), MAP)
    assert str(caught.value) == text


def test_fields_without_a_name_of_their_own_have_that_of_their_type_in_errors() -> None:
    with pytest.raises(ProtobufError, match="^proto: wrong wireType = 0 for field VolumeSource$"):
        decode(body("v1", "Pod", data(2, data(1, number(2, 1)))), POD)


def test_a_message_that_comes_twice_is_merged_and_the_last_scalar_counts() -> None:
    first = data(1, data(1, "a") + data(4, "link")) + data(2, data(1, "k") + data(2, "v"))
    again = data(1, data(1, "b")) + data(2, data(1, "l") + data(2, "w")) + data(2, data(1, "k") + data(2, "x"))
    tree = decode(body("v1", "ConfigMap", first + again), MAP)
    assert tree["metadata"] == {"name": "b", "selfLink": "link"} and tree["data"] == {"k": "x", "l": "w"}
    port = data(4, number(1, 1) + data(3, "http")) + data(4, number(1, 0)) + data(4, number(2, 8))
    service = decode(body("v1", "Service", data(2, data(1, port))), GroupVersionKind("", "v1", "Service"))
    assert service["spec"]["ports"] == [{"targetPort": 8}]
    volumes = data(1, data(1, "v") + data(2, data(2, b"")) + data(2, data(2, data(1, "Memory"))))
    assert decode(body("v1", "Pod", data(2, volumes)), POD)["spec"]["volumes"] == [
        {"name": "v", "emptyDir": {"medium": "Memory"}}
    ]


def test_unknown_groups_are_skipped_and_32_bits_stay_of_a_32_bit_number() -> None:
    group = b"\x7b\x08\x01\x7b\x12\x01x\x7c\x7c"
    tree = decode(body("v1", "ConfigMap", data(1, data(1, "c")) + group + number(4, 2)), MAP)
    assert tree["metadata"] == {"name": "c"} and tree["immutable"] is True
    kind = GroupVersionKind("scheduling.k8s.io", "v1", "PriorityClass")
    assert decode(body("scheduling.k8s.io/v1", "PriorityClass", number(2, (1 << 32) + 5)), kind)["value"] == 5
    packed = data(4, varint(1) + varint(1 << 32 | 7))
    context = decode(body("v1", "Pod", data(2, data(14, packed + number(4, 3)))), POD)["spec"]["securityContext"]
    assert context == {"supplementalGroups": [1, (1 << 32) + 7, 3]}


def test_bytes_of_invalid_utf8_become_the_character_that_stands_for_them() -> None:
    entry = data(1, b"\xe4\xb8") + data(2, b"a\xff")
    tree = decode(body("v1", "ConfigMap", data(1, data(1, b"\xc2")) + data(2, entry)), MAP)
    assert tree["metadata"]["name"] == "\ufffd" and tree["data"] == {"\ufffd\ufffd": "a\ufffd"}


def test_the_content_type_of_an_envelope_means_nothing() -> None:
    raw = b"k8s\x00" + data(1, data(2, "ConfigMap")) + data(2, data(1, data(1, "c"))) + data(4, "application/json")
    assert decode(raw, MAP) == {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}}


@pytest.mark.parametrize(("levels", "nested"), [(96, True), (97, False)])
def test_messages_are_nested_in_at_most_a_hundred_levels(levels: int, nested: bool) -> None:
    schema = b""
    for _ in range(levels - 1):
        schema = data(28, schema)  # not
    raw = data(2, data(7, data(4, data(1, schema))))
    kind = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    given = body("apiextensions.k8s.io/v1", "CustomResourceDefinition", raw)
    if nested:
        assert len(str(decode(given, kind)).split("'not'")) == levels
    else:
        with pytest.raises(ProtobufError, match="nested too deeply"):
            decode(given, kind)
