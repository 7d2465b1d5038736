"""The syntax errors of a text that does not parse (upstream: cel-go ``CEL.g4``, read by ANTLR's ``DefaultErrorStrategy``).

ANTLR continues after an error: it drops a token, inserts one, or skips to a token that may follow one of the open rules.
So one text has several errors, and their texts depend on the states of ANTLR's machine.  This module is such a machine; it
runs only for a text that the parser refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from kapi.cel.errors import Issue
from kapi.cel.lexer import Token
from kapi.machinery.checkpoint import checkpoint

#: ``{n}``: only in a call with at most this precedence; ``rule[n]``: a call with it
_GRAMMAR = """
start: expr EOF
expr: or ('?' or ':' expr)?
or: and ('||' and)*
and: relation ('&&' relation)*
relation: calc ({1} RELATION relation[2])*
calc: unary ({2} PRODUCT calc[3] | {1} SUM calc[2])*
unary: member | '!'+ member | '-'+ member
member: primary ({3} '.' '?'? name | {2} '.' IDENTIFIER '(' arguments? ')' | {1} '[' '?'? expr ']')*
primary: '.'? IDENTIFIER | '.'? IDENTIFIER '(' arguments? ')' | '(' expr ')' | '[' list? ','? ']' | '{' map? ','? '}'
  | '.'? IDENTIFIER ('.' IDENTIFIER)* '{' fields? ','? '}' | literal
arguments: expr (',' expr)*
list: item (',' item)*
fields: field ':' expr (',' field ':' expr)*
field: '?'? name
map: item ':' expr (',' item ':' expr)*
name: IDENTIFIER | ESC_IDENTIFIER
item: '?'? expr
literal: '-'? NUM_INT | NUM_UINT | '-'? NUM_FLOAT | STRING | BYTES | 'true' | 'false' | 'null'
"""
_SETS = {"RELATION": "== != in < <= >= >", "PRODUCT": "* / %", "SUM": "- +", "EOF": ""}
#: symbols in the order of messages
_SYMBOLS = [
    "<EOF>",
    *(f"'{mark}'" for mark in "== != in < <= >= > && || [ ] { } ( ) . , - ! ? : + * / % true false null".split()),
    *"NUM_FLOAT NUM_INT NUM_UINT STRING BYTES IDENTIFIER ESC_IDENTIFIER".split(),
]
_ORDER = {symbol: place for place, symbol in enumerate(_SYMBOLS)}
_KINDS = {
    "eof": "<EOF>",
    "escaped": "ESC_IDENTIFIER",
    "int": "NUM_INT",
    "uint": "NUM_UINT",
    "float": "NUM_FLOAT",
    "string": "STRING",
    "bytes": "BYTES",
}
_WORD = re.compile(r"'[^']+'|\{\d\}|\w+(?:\[\d\])?|[()|*+?]")
_HIDDEN = re.compile(r"[\t \r\n\f]+|//[^\n]*")
_RESERVED = re.compile(r"no viable alternative at input '.(true|false|null)'")
_END = "<EOF>"
_RETURN = "<return>"  # among symbols it means that the rule may end here
MAX_DEPTH = 250  # of recursion of a rule
MAX_SYNTAX_ERRORS = 100
_MAX_RECOVERIES = 30
_MAX_SKIPPED = 256  # tokens of one recovery
_TOKENS_PER_CHECKPOINT = 16


class _Call(NamedTuple):
    rule: str
    precedence: int


_Label = frozenset[str] | _Call | int | None


class _State:
    """``kind``: match, block, option, entry, back or stop; ``steps``: labels (symbols, a call, a precedence) and targets."""

    def __init__(self, kind: str, steps: Sequence[tuple[_Label, _State]] = ()) -> None:
        self.kind = kind
        self.steps = list(steps)
        self.rule = ""
        self.decision = self


class _Machine:
    """The states of the grammar, by rule."""

    def __init__(self) -> None:
        self.starts: dict[str, _State] = {}
        self.stops: dict[str, _State] = {}
        self.followers: dict[str, list[_State]] = {}
        self._words: list[str] = []
        for line in re.split(r"\n(?=\w)", _GRAMMAR.strip()):
            rule, _, body = line.partition(": ")
            self._words = _WORD.findall(body)[::-1]
            stop = self.stops[rule] = _State("stop")
            stop.rule = rule
            self.starts[rule] = self._alternatives(stop)

    # the grammar's text is read backwards, since each state refers to the next one

    def _alternatives(self, after: _State) -> _State:
        choices = [self._sequence(after)]
        while self._words and self._words[0] == "|":
            self._words.pop(0)
            choices.insert(0, self._sequence(after))
        return choices[0] if len(choices) == 1 else _State("block", [(None, choice) for choice in choices])

    def _sequence(self, after: _State) -> _State:
        while self._words and self._words[0] not in ("|", "("):
            after = self._repeated(after)
        return after

    def _repeated(self, after: _State) -> _State:
        mark = self._words[0] if self._words[0] in ("?", "*", "+") else ""
        if not mark:
            return self._element(after)
        self._words.pop(0)
        if mark == "?":
            return _State("option", [(None, self._element(after)), (None, after)])
        back = _State("back")
        body = self._element(back)
        if mark == "+":
            back.steps = [(None, body), (None, after)]
            return _State("block", [(None, body)])
        entry = _State("entry", [(None, body), (None, after)])
        back.steps = [(None, entry)]
        back.decision = entry
        return entry

    def _element(self, after: _State) -> _State:
        word = self._words.pop(0)
        if word == ")":
            first = self._alternatives(after)
            self._words.pop(0)
            return first
        if word[0] == "{":
            return _State("match", [(int(word[1:-1]), after)])
        if word in _SETS:
            marks = [f"'{mark}'" for mark in _SETS[word].split()]
            return _State("match", [(frozenset(marks or [_END]), after)])
        if word in _ORDER:
            return _State("match", [(frozenset([word]), after)])
        rule, _, precedence = word.rstrip("]").partition("[")
        self.followers.setdefault(rule, []).append(after)
        return _State("match", [(_Call(rule, int(precedence or 0)), after)])


_MACHINE = cache(_Machine)


@cache
def _look(state: _State) -> frozenset[str]:
    """The symbols that may come at a state, and ``_RETURN``."""
    found: set[str] = set()
    seen = {state}
    waiting = [state]
    while waiting:
        current = waiting.pop()
        if current.kind == "stop":
            found.add(_RETURN)
        for label, target in current.steps:
            after = [target]
            if isinstance(label, frozenset):
                found |= label
                continue
            if isinstance(label, _Call):
                first = _look(_MACHINE().starts[label.rule])
                found |= first - {_RETURN}
                after = [target] if _RETURN in first else []
            for following in after:
                if following not in seen:
                    seen.add(following)
                    waiting.append(following)
    return frozenset(found)


class _Config(NamedTuple):
    state: _State
    returns: tuple[_State, ...]
    choice: int  # from 1
    outer: bool  # the rule of the decision has ended


def _closure(configs: Iterable[_Config], precedence: int | None) -> frozenset[_Config]:
    """The configurations that wait for a symbol. At a decision's beginning its own ``precedence`` counts."""
    machine = _MACHINE()
    waiting = list(configs)
    seen = set(waiting)
    while waiting:
        config = waiting.pop()
        state, returns, _, outer = config
        after: list[_Config] = []
        if state.kind == "stop":
            if returns:
                after = [config._replace(state=returns[-1], returns=returns[:-1])]
            else:
                after = [config._replace(state=each, outer=True) for each in machine.followers.get(state.rule, ())]
        for label, target in state.steps:
            if isinstance(label, _Call):
                after.append(config._replace(state=machine.starts[label.rule], returns=(*returns, target)))
            elif isinstance(label, int):
                if precedence is None or returns or outer or label >= precedence:
                    after.append(config._replace(state=target))
            elif label is None:
                after.append(config._replace(state=target))
        new = set(after) - seen
        seen |= new
        waiting.extend(new)
    return frozenset(
        config
        for config in seen
        if any(isinstance(label, frozenset) for label, _ in config.state.steps)
        or (config.state.kind == "stop" and not config.returns and config.state.rule not in machine.followers)
    )


class _Prediction:
    """What is possible after some symbols of a decision: the choice if it is clear, and the one whose rule has ended."""

    def __init__(self, configs: frozenset[_Config], at_end: bool) -> None:
        self.configs = configs
        self.edges: dict[str, _Prediction | None] = {}
        choices = {config.choice for config in configs}
        self.choice = min(choices) if len(choices) == 1 or at_end or self._conflict() else 0
        self.ended = min((config.choice for config in configs if config.outer), default=0)

    def _conflict(self) -> bool:
        exact: dict[tuple[_State, tuple[_State, ...]], set[int]] = {}
        rough: dict[_State, set[int]] = {}
        for state, returns, choice, _ in self.configs:
            exact.setdefault((state, returns), set()).add(choice)
            rough.setdefault(state, set()).add(choice)
        return any(len(each) > 1 for each in exact.values()) and all(len(each) > 1 for each in rough.values())

    def after(self, symbol: str) -> _Prediction | None:
        if symbol not in self.edges:
            reached = [
                config._replace(state=target)
                for config in self.configs
                for label, target in config.state.steps
                if isinstance(label, frozenset) and symbol in label
            ]
            configs = _closure(reached, None)
            self.edges[symbol] = (
                _PREDICTIONS.setdefault((configs, symbol == _END), _Prediction(configs, symbol == _END))
                if reached
                else None
            )
        return self.edges[symbol]


_PREDICTIONS: dict[tuple[frozenset[_Config], bool], _Prediction] = {}


@cache
def _beginning(decision: _State, precedence: int) -> tuple[_Prediction, bool]:
    """The start of a decision, and whether one symbol always decides it."""
    configs = [_Config(target, (), place, False) for place, (_, target) in enumerate(decision.steps, 1)]
    start = _Prediction(_closure(configs, precedence), False)
    start.choice = 0
    symbols = [set[str]() for _ in decision.steps]
    for config in start.configs:
        for label, _ in config.state.steps:
            if isinstance(label, frozenset):
                symbols[config.choice - 1] |= label
    return start, sum(map(len, symbols)) == len(set[str]().union(*symbols))


class _Frame(NamedTuple):
    rule: str
    precedence: int
    after: _State | None  # in the calling rule


class _Failure(Exception):
    """An error at the token at ``place``, which ends a rule."""

    def __init__(self, place: int, message: str) -> None:
        super().__init__(message)
        self.place = place


class _Abandoned(Exception):
    """The end of all recovery."""


class _Reading:
    """One reading of the tokens, from error to error."""

    def __init__(self, tokens: Sequence[Token], text: str) -> None:
        self._tokens = tokens
        self._text = text
        self._symbols = [_symbol(token) for token in tokens]
        self._place = 0
        self._frames: list[_Frame] = []
        self._depths = dict.fromkeys(_MACHINE().starts, 0)
        self._state = _MACHINE().starts["start"]
        self._recovering = False
        self._failed_at = -1
        self._failed_in: set[_State] = set()
        self._recoveries = 0
        self.issues: list[Issue] = []

    # tokens

    @property
    def _symbol(self) -> str:
        return self._symbols[self._place]

    def _next_symbol(self) -> str:
        return self._symbols[min(self._place + 1, len(self._symbols) - 1)]

    def _consume(self) -> None:
        if not self._place % _TOKENS_PER_CHECKPOINT:
            checkpoint()
        self._place = min(self._place + 1, len(self._tokens) - 1)

    def _consume_until(self, wanted: frozenset[str] | set[str], limit: int = 0) -> None:
        skipped = 0
        while self._symbol != _END and self._symbol not in wanted:
            if limit and skipped >= limit:
                self.issues.append(Issue(-1, f"error recovery token lookahead limit exceeded: {limit}"))
                raise _Abandoned
            skipped += 1
            self._consume()

    # what may come

    def _callers(self) -> Iterator[_State]:
        for frame in reversed(self._frames):
            if frame.after is not None:
                yield frame.after

    def _expected(self, state: _State) -> set[str]:
        found = set(_look(state))
        for caller in self._callers():
            if _RETURN not in found:
                break
            found.remove(_RETURN)
            found |= _look(caller)
        return {_END if symbol == _RETURN else symbol for symbol in found}

    # reports

    def _tell(self, place: int, message: str) -> None:
        self.issues.append(Issue(self._tokens[place].offset, f"Syntax error: {message}"))
        if len(self.issues) > MAX_SYNTAX_ERRORS:
            raise _Abandoned

    def _report(self, place: int, message: str) -> None:
        """Adds an error, unless it only follows from the last one."""
        if not self._recovering:
            self._recovering = True
            self._tell(place, message)

    def _shown(self) -> str:
        return _quoted(self._tokens[self._place].text)

    def _unwanted(self) -> None:
        self._report(self._place, f"extraneous input {self._shown()} expecting {_listed(self._expected(self._state))}")

    def _mismatch(self) -> _Failure:
        return _Failure(
            self._place, f"mismatched input {self._shown()} expecting {_listed(self._expected(self._state))}"
        )

    def _matched(self) -> None:
        self._recovering = False
        self._failed_at = -1
        self._failed_in = set()

    # the machine

    def run(self) -> None:
        state = self._call(_Call("start", 0), None)
        try:
            while self._frames:
                state = self._advance(state)
        except _Abandoned:
            pass

    def _call(self, call: _Call, after: _State | None) -> _State:
        self._depths[call.rule] += 1
        if self._depths[call.rule] > MAX_DEPTH:
            self.issues.append(Issue(-1, f"expression recursion limit exceeded: {MAX_DEPTH}"))
            raise _Abandoned
        self._frames.append(_Frame(call.rule, call.precedence, after))
        return _MACHINE().starts[call.rule]

    def _advance(self, state: _State) -> _State:
        if state.kind == "stop":
            self._depths[state.rule] -= 1
            after = self._frames.pop().after
            return state if after is None else after
        label, target = state.steps[0]
        if isinstance(label, _Call):
            self._state = state
            return self._call(label, target)
        if isinstance(label, int):
            return target
        self._state = state
        try:
            if isinstance(label, frozenset):
                self._match(label, target)
                return target
            self._synchronize(state)
            return self._choose(state.decision)
        except _Failure as failure:
            self._report(failure.place, str(failure))
            self._recover()
            return _MACHINE().stops[self._frames[-1].rule]

    def _match(self, wanted: frozenset[str], target: _State) -> None:
        if self._symbol not in wanted:
            self._count()
            if not self._dropped():
                if self._symbol not in self._expected(target):
                    raise self._mismatch()
                self._report(self._place, f"missing {_listed(self._expected(self._state))} at {self._shown()}")
                return
        self._matched()
        self._consume()

    def _dropped(self) -> bool:
        """Drops a token, if the next one is expected."""
        if self._next_symbol() not in self._expected(self._state):
            return False
        self._unwanted()
        self._consume()
        self._matched()
        return True

    def _synchronize(self, state: _State) -> None:
        if self._recovering or not {_RETURN, self._symbol}.isdisjoint(_look(state)):
            return
        if state.kind != "back":
            if not self._dropped():
                raise self._mismatch()
            return
        self._unwanted()
        self._consume_until(self._expected(state) | self._resumable())

    def _resumable(self) -> set[str]:
        """The symbols that may follow one of the open rules."""
        found: set[str] = set()
        for caller in self._callers():
            found |= _look(caller)
        return found - {_RETURN}

    def _choose(self, decision: _State) -> _State:
        if len(decision.steps) == 1:
            return decision.steps[0][1]
        prediction, one_symbol = _beginning(decision, self._frames[-1].precedence)
        place = self._place
        while not prediction.choice:
            following = prediction.after(self._symbols[place])
            if following is None:
                if one_symbol and decision.kind != "block":
                    return decision.steps[-1][1]
                if prediction.ended and not one_symbol:
                    return decision.steps[prediction.ended - 1][1]
                raise self._no_choice(place)
            prediction = following
            place = min(place + 1, len(self._symbols) - 1)
        return decision.steps[prediction.choice - 1][1]

    def _no_choice(self, place: int) -> _Failure:
        first = self._tokens[self._place]
        text, end = first.text, first.offset + len(first.text)
        for token in self._tokens[self._place + 1 : place + 1] if first.kind != "eof" else ():
            text += "".join(_HIDDEN.findall(self._text, end, token.offset))
            if token.kind != "eof":
                text += token.text
            end = token.offset + len(token.text)
        message = f"no viable alternative at input {_quoted(text)}"
        return _Failure(place, _RESERVED.sub(r"mismatched input '\1' expecting IDENTIFIER", message))

    def _count(self) -> None:
        if self._recoveries == _MAX_RECOVERIES:
            self._tell(self._place, f"error recovery attempt limit exceeded: {_MAX_RECOVERIES}")
            raise _Abandoned
        self._recoveries += 1

    def _recover(self) -> None:
        self._count()
        if self._failed_at == self._place and self._state in self._failed_in:
            self._consume()
        self._failed_at = self._place
        self._failed_in.add(self._state)
        self._consume_until(self._resumable(), _MAX_SKIPPED)


def _symbol(token: Token) -> str:
    if token.kind in ("op", "ident"):
        mark = f"'{token.text}'"
        return mark if mark in _ORDER else "IDENTIFIER"
    return _KINDS[token.kind]


def _quoted(text: str) -> str:
    text = text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{text}'"


def _listed(symbols: set[str]) -> str:
    names = sorted(symbols, key=_ORDER.__getitem__)
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"


def syntax_errors(tokens: Sequence[Token], text: str) -> list[Issue]:
    """The errors of a text that does not parse, from its tokens."""
    reading = _Reading(tokens, text)
    reading.run()
    return reading.issues
