"""Error messages of Go's ``json.Unmarshal`` for text that should be a JSON value of a type."""

from __future__ import annotations

_SPACE = " \t\r\n"
_LITERALS = {"t": "true", "f": "false", "n": "null"}
_CLOSING = {"{": "}", "[": "]"}
_MAX_DEPTH = 10_000  # levels
_NAMES = {"{": "object", "[": "array", '"': "string", "t": "bool", "f": "bool"}
_DIGITS = frozenset("0123456789")


class _Fault(Exception):
    """The text is not JSON; the message is Go's."""


def object_error(data: bytes) -> str:
    """Go's error in decoding into ``map[string]interface{}``; "" for an object or null."""
    return value_error(data, "{", "map[string]interface {}")


def value_error(data: bytes, opening: str, go_type: str) -> str:
    """Go's error in decoding into a type whose JSON begins with ``opening``; "" for such a value or null."""
    text = data.decode("utf-8", "replace")
    scanner = _Scanner(text)
    try:
        first = scanner.skip()
        scanner.value()
        if scanner.skip():
            scanner.fail("after top-level value")
    except _Fault as fault:
        return str(fault)
    if first in (opening, "n"):
        return ""
    return f"json: cannot unmarshal {_NAMES.get(first, 'number')} into Go value of type {go_type}"


class _Scanner:
    """Parses JSON text up to the first character that Go's decoder refuses."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def skip(self) -> str:
        while self.peek() and self.peek() in _SPACE:
            self.at += 1
        return self.peek()

    def fail(self, where: str) -> None:
        char = self.peek()
        if not char:
            raise _Fault("unexpected end of JSON input")
        shown = {"'": "'\\''", '"': "'\"'"}.get(char) or f"'{char if char.isprintable() else repr(char)[1:-1]}'"
        raise _Fault(f"invalid character {shown} {where}")

    def value(self) -> None:
        """Parses one value, without recursion: open objects and arrays are in a list."""
        open_: list[str] = []
        while True:
            char = self.skip()
            if char and char in "{[":
                if len(open_) == _MAX_DEPTH:
                    self.fail("exceeded max depth")
                open_.append(char)
                self.at += 1
                if self.skip() != _CLOSING[char]:
                    if char == "{":
                        self._key()
                    continue
            else:
                self._scalar(char)
            while open_ and self.skip() == _CLOSING[open_[-1]]:
                open_.pop()
                self.at += 1
            if not open_:
                return
            if self.peek() != ",":
                self.fail("after object key:value pair" if open_[-1] == "{" else "after array element")
            self.at += 1
            if open_[-1] == "{":
                self._key()

    def _key(self) -> None:
        if self.skip() != '"':
            self.fail("looking for beginning of object key string")
        self._string()
        if self.skip() != ":":
            self.fail("after object key")
        self.at += 1

    def _scalar(self, char: str) -> None:
        if char == '"':
            self._string()
        elif char in _LITERALS and char:
            self._literal(_LITERALS[char])
        elif char and (char in "-0123456789"):
            self._number()
        else:
            self.fail("looking for beginning of value")

    def _literal(self, word: str) -> None:
        for expected in word:
            if self.peek() != expected:
                self.fail(f"in literal {word} (expecting '{expected}')")
            self.at += 1

    def _string(self) -> None:
        self.at += 1
        while True:
            char = self.peek()
            if char == '"':
                self.at += 1
                return
            if not char or ord(char) < 0x20:
                self.fail("in string literal")
            if char == "\\":
                self.at += 1
                if self.peek() == "u":
                    for _ in range(4):
                        self.at += 1
                        if self.peek() not in tuple("0123456789abcdefABCDEF"):
                            self.fail("in \\u hexadecimal character escape")
                elif self.peek() not in tuple('"\\/bfnrt'):
                    self.fail("in string escape code")
            self.at += 1

    def _digits(self, where: str) -> None:
        if self.peek() not in _DIGITS:
            self.fail(where)
        while self.peek() in _DIGITS:
            self.at += 1

    def _number(self) -> None:
        if self.peek() == "-":
            self.at += 1
        if self.peek() == "0":
            self.at += 1
        else:
            self._digits("in numeric literal")
        if self.peek() == ".":
            self.at += 1
            self._digits("after decimal point in numeric literal")
        if self.peek() and self.peek() in "eE":
            self.at += 1
            if self.peek() and self.peek() in "+-":
                self.at += 1
            self._digits("in exponent of numeric literal")
