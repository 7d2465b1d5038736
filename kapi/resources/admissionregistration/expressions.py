"""Expressions about admission requests: their types, compilation, and variables that later expressions may use by name.

Upstream: apiserver ``admission/plugin/cel``, ``plugin/cel/composition.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kapi.cel import errors as cel_errors
from kapi.cel.environment import PER_CALL_LIMIT, Environment, Program, kubernetes_functions
from kapi.cel.frame import Frame
from kapi.cel.functions import declarer, table
from kapi.cel.library.authorizer import AUTHORIZER_TYPE, RESOURCE_CHECK
from kapi.cel.types import BOOL, DYN, INT, STRING, TIMESTAMP, CelType, StructField, StructType, list_of, map_of
from kapi.machinery import field
from kapi.machinery.tree import Object, Tree

OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
_TEXTS = map_of(STRING, STRING)
JSON_PATCH = StructType(
    "JSONPatch",
    {
        "op": StructField("op", STRING),
        "path": StructField("path", STRING),
        "from": StructField("from", STRING),
        "value": StructField("value", DYN),
    },
    claims_all=True,
)
_JSON_PATCH_FUNCTIONS = [
    declarer()(
        "jsonpatch.escapeKey",
        "string_jsonpatch_escapeKey_string",
        "(string) string",
        lambda key: key.replace("~", "~0").replace("/", "~1"),
    )
]


class CompileError(ValueError):
    """An invalid expression; the text is upstream's.  ``internal``: the error is found after type checking."""

    def __init__(self, text: str, internal: bool = False) -> None:
        super().__init__(text)
        self.internal = internal

    def at(self, path: field.Path, expression: str) -> field.FieldError:
        """The field error for the field with the expression."""
        return field.internal(path, self) if self.internal else field.invalid(path, expression, str(self))


class EvaluationError(ValueError):
    """An expression that failed for this request.  ``fatal``: the cost limit was exceeded, so nothing more is evaluated.

    ``cause`` is the text without the expression.
    """

    def __init__(self, text: str, fatal: bool = False, cost: int = 0, cause: str = "") -> None:
        super().__init__(text)
        self.cause = cause or text
        self.fatal = fatal
        self.cost = cost


def _struct(name: str, /, **fields: CelType) -> StructType:
    return StructType(f"kubernetes.{name}", {key: StructField(key, type_) for key, type_ in fields.items()})


_GVK = _struct("GroupVersionKind", group=STRING, version=STRING, kind=STRING)
_GVR = _struct("GroupVersionResource", group=STRING, version=STRING, resource=STRING)
_USER = _struct("UserInfo", username=STRING, uid=STRING, groups=list_of(STRING), extra=map_of(STRING, list_of(STRING)))
REQUEST = _struct(
    "AdmissionRequest",
    kind=_GVK,
    resource=_GVR,
    subResource=STRING,
    requestKind=_GVK,
    requestResource=_GVR,
    requestSubResource=STRING,
    name=STRING,
    namespace=STRING,
    operation=STRING,
    userInfo=_USER,
    dryRun=BOOL,
    options=DYN,
)
_CONDITION = _struct(
    "NamespaceCondition", status=STRING, type=STRING, lastTransitionTime=TIMESTAMP, message=STRING, reason=STRING
)
NAMESPACE = _struct(
    "Namespace",
    metadata=_struct(
        "NamespaceMetadata",
        name=STRING,
        generateName=STRING,
        namespace=STRING,
        labels=_TEXTS,
        annotations=_TEXTS,
        UID=STRING,
        creationTimestamp=TIMESTAMP,
        deletionGracePeriodSeconds=INT,
        deletionTimestamp=TIMESTAMP,
        generation=INT,
        resourceVersion=STRING,
        finalizers=list_of(STRING),
    ),
    spec=_struct("NamespaceSpec", finalizers=list_of(STRING)),
    status=_struct("NamespaceStatus", conditions=list_of(_CONDITION), phase=STRING),
)
_STRUCTS = (REQUEST, _GVK, _GVR, _USER, NAMESPACE)


class _AnyFields(dict[str, StructField]):
    """A type that has every field, of any type."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> StructField:
        return StructField(name, DYN)

    def get(self, name: str, default: object = None) -> Tree:
        return self[name]


class _Structs(dict[str, StructType]):
    """The known types, and Object and Object.<path> made on demand."""

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or (isinstance(name, str) and _is_object(name))

    def __missing__(self, name: str) -> StructType:
        if not _is_object(name):
            raise KeyError(name)
        made = self[name] = StructType(name, _AnyFields())
        return made

    def get(self, name: str, default: object = None) -> Tree:
        return self[name] if name in self else default


def _is_object(name: str) -> bool:
    return name == "Object" or name.startswith("Object.")


#: the type of an apply configuration
OBJECT = StructType("Object", _AnyFields())


def environment(
    *, params: bool = False, authorizer: bool = True, patches: bool = False, variables: StructType | None = None
) -> Environment:
    """The variables of an expression: object, oldObject, request and namespaceObject always, others when they are given.

    ``patches`` adds the types that mutations make, JSONPatch and Object; ``variables`` is the type of a policy's variables.
    """
    types: dict[str, CelType] = {"object": DYN, "oldObject": DYN, "request": REQUEST, "namespaceObject": NAMESPACE}
    if params:
        types["params"] = DYN
    if authorizer:
        types["authorizer"] = AUTHORIZER_TYPE
        types["authorizer.requestResource"] = RESOURCE_CHECK
    if variables is not None:
        types["variables"] = variables
    structs = {struct.name: struct for struct in _STRUCTS}
    if not patches:
        return Environment(types, structs=structs)
    functions = {**kubernetes_functions(), **table(_JSON_PATCH_FUNCTIONS)}
    return Environment(types, structs=_Structs({**structs, JSON_PATCH.name: JSON_PATCH}), functions=functions)


class Expression:
    """A compiled expression."""

    __slots__ = ("text", "program")

    def __init__(self, text: str, program: Program) -> None:
        self.text = text
        self.program = program

    def evaluate(self, values: Mapping[str, Tree], budget: int) -> tuple[Tree, int]:
        """The value and its cost.  Raises EvaluationError."""
        frame = Frame(values, 0, min(budget, PER_CALL_LIMIT), 0.0)
        try:
            value = self.program.run_in(frame)
        except cel_errors.BudgetExceeded:
            if budget < PER_CALL_LIMIT:
                raise EvaluationError(OUT_OF_BUDGET, fatal=True) from None
            raise self._failed("operation cancelled: actual cost limit exceeded", frame) from None
        except cel_errors.EvaluationError as error:
            raise self._failed(str(error), frame) from None
        return value, frame.cost

    def _failed(self, cause: str, frame: Frame) -> EvaluationError:
        return EvaluationError(f"expression '{self.text}' resulted in error: {cause}", cost=frame.cost, cause=cause)


def compile_expression(text: str, env: Environment, wanted: tuple[CelType, ...] = (BOOL,)) -> Expression:
    """Compiles an expression.  Raises CompileError, also when its type is not in ``wanted`` (empty: any type)."""
    try:
        return Expression(text, env.compile(text, mismatch=lambda result: _mismatch(result, wanted)))
    except cel_errors.CompileErrors as error:
        raise CompileError(error.reason, isinstance(error, cel_errors.ProgramError)) from None


def _mismatch(result: CelType, wanted: tuple[CelType, ...]) -> str:
    if not wanted or any(result == type_ for type_ in wanted):
        return ""
    shown = " ".join(map(str, wanted))
    if len(wanted) > 1:
        shown = f"one of [{shown}]"
    return f"must evaluate to {shown} but got {result}"


class Composition:
    """The variables of one policy, and the environments in which its expressions are compiled."""

    def __init__(self, *, params: bool = False, patches: bool = False, empty: bool = False) -> None:
        """``empty``: there are no variables, so expressions may not name ``variables``."""
        self.params = params
        self.patches = patches
        self.type = StructType("kubernetes.variables")
        self.expressions: dict[str, Expression | CompileError] = {}
        #: the environment of most expressions; it also has variables that are added later
        self._offered = None if empty else self.type
        self.environment = environment(params=params, patches=patches, variables=self._offered)
        #: of variables and conditions, which cannot name the types that mutations make
        self.plain = environment(params=params, variables=self._offered) if patches else self.environment

    def bare(self) -> Environment:
        """The environment of expressions that may not use the authorizer."""
        return environment(params=self.params, authorizer=False, variables=self._offered)

    def add(self, name: str, text: str) -> None:
        """Adds a variable.  Raises CompileError; the variable is then declared without a type."""
        try:
            compiled = compile_expression(text, self.plain, ())
        except CompileError as error:
            self.expressions[name] = error
            self.type.fields[name] = StructField(name, DYN)
            raise
        self.expressions[name] = compiled
        self.type.fields[name] = StructField(name, compiled.program.result_type)

    def add_all(self, variables: Iterable[Mapping[str, Tree]]) -> None:
        """Adds variables; the error of a variable is reported where it is used."""
        for variable in variables:
            try:
                self.add(variable.get("name") or "", variable.get("expression") or "")
            except CompileError:
                continue


class LazyVariables(Object):
    """The values of the variables for one request, each evaluated when it is first used; ``cost`` is the sum of their costs."""

    def __init__(self, composition: Composition, values: Mapping[str, Tree], budget: int) -> None:
        super().__init__()
        self._composition = composition
        self._values = {**values, "variables": self}
        self._budget = budget
        self._failed: dict[str, str] = {}
        self.cost = 0

    def __contains__(self, name: object) -> bool:
        return name in self._composition.expressions

    def __missing__(self, name: str) -> Tree:
        if name in self._failed:
            raise cel_errors.EvaluationError(self._failed[name])
        expression = self._composition.expressions[name]
        try:
            if isinstance(expression, CompileError):
                raise cel_errors.EvaluationError(f'composited variable "{name}" fails to compile: {expression}')
            try:
                value, cost = expression.evaluate(self._values, max(self._budget - self.cost, 0))
            except EvaluationError as error:
                raise cel_errors.EvaluationError(
                    f'composited variable "{name}" fails to evaluate: {error.cause}'
                ) from None
        except cel_errors.EvaluationError as error:
            self._failed[name] = str(error)
            raise
        self.cost += cost
        self[name] = value
        return value
