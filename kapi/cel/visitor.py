"""A visitor of syntax trees, with one method for each kind of node (upstream: cel-go ``common/ast`` Visitor)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

from kapi.cel.syntax import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr
from kapi.machinery import checkpoint

Found = TypeVar("Found")  # result for a node


class Visitor(Generic[Found]):
    def visit(self, node: Expr) -> Found:
        """Calls the method for the node's kind, then ``visited``; returns the result."""
        if checkpoint.running is not None:
            checkpoint.checkpoint()
        if isinstance(node, Literal):
            found = self.literal(node)
        elif isinstance(node, Ident):
            found = self.ident(node)
        elif isinstance(node, Select):
            found = self.select(node)
        elif isinstance(node, Call):
            found = self.call(node)
        elif isinstance(node, ListExpr):
            found = self.list(node)
        elif isinstance(node, MapExpr):
            found = self.map(node)
        elif isinstance(node, StructExpr):
            found = self.struct(node)
        else:
            assert isinstance(node, Comprehension)
            found = self.fold(node)
        self.visited(node, found)
        return found

    def visited(self, node: Expr, found: Found) -> None:
        """Called with each node and its result, children first."""

    @abstractmethod
    def literal(self, node: Literal) -> Found: ...

    @abstractmethod
    def ident(self, node: Ident) -> Found: ...

    @abstractmethod
    def select(self, node: Select) -> Found: ...

    @abstractmethod
    def call(self, node: Call) -> Found: ...

    @abstractmethod
    def list(self, node: ListExpr) -> Found: ...

    @abstractmethod
    def map(self, node: MapExpr) -> Found: ...

    @abstractmethod
    def struct(self, node: StructExpr) -> Found: ...

    @abstractmethod
    def fold(self, node: Comprehension) -> Found: ...
