"""The mutants of a module: all small changes that the operators of `mutants_operators` can make."""

from __future__ import annotations

import ast
import hashlib
import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.operators.operator import Operator

from bench.kit.mutants.operators import Position, operators

Placed = tuple[parso.tree.NodeOrLeaf, int, int]
"""A node of a module, and the indices of its begin and its end in the text."""
Change = tuple[str, str, str]
"""What identifies a mutant, even if its lines move: (scope, lines before the change, lines after the change)."""


@dataclass(frozen=True)
class Mutant:
    """One small change of a module: `source` is its text, and `code` its changed text.

    `scope`: the function or class with the change, or "" at the top of the module. `first_line`: the first line of the
    innermost function or lambda whose body has the change. It is 0 if the change takes effect on import.
    """

    source: str
    code: str
    scope: str
    first_line: int

    @cached_property
    def change(self) -> Change:
        """The mutant's key in `by_change`, without `#2`."""
        before, after = self.source.splitlines(), self.code.splitlines()
        for side in (0, -1):
            while before and after and before[side] == after[side]:
                del before[side], after[side]
        return self.scope, _joined(before), _joined(after)

    @property
    def digest(self) -> str:
        """The digest of the changed module."""
        return digest(self.code)


def digest(*sources: str) -> str:
    """Returns the digest of the texts of modules without their docstrings and blank lines."""
    counted = [line for source in sources for line in _counted(source)]
    return hashlib.sha256("\n".join(counted).encode()).hexdigest()[:16]


@lru_cache(maxsize=200)
def _counted(source: str) -> tuple[str, ...]:
    texts = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr) and _is_text(node.value)]
    docstrings = {line for node in texts for line in range(node.lineno, (node.end_lineno or 0) + 1)}
    lines = enumerate(source.splitlines(), 1)
    return tuple(line for number, line in lines if line.strip() and number not in docstrings)


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def mutants(source: str, keys: Collection[Change] | None = None) -> list[Mutant]:
    """Returns all mutants of a module, except those that do not change what the module does.

    Such mutants change annotations, or the options of a class (`frozen=True`) or of a decorator. If several mutants
    have the same text, only the first is returned. `keys`: keys of `by_change`. If they are given, mutants with other
    lines are left out before their text is parsed. Parsing takes most of the time.
    """
    lines = None if keys is None else {(before, after) for _, before, after in keys}
    tree = ast.parse(source)
    idle, scopes, functions = list(_idle(tree)), list(_scopes(tree)), list(bodies(tree))
    candidates, nodes = [], nodes_of(source)
    for operator in operators():
        for (start, end), code in changes(source, operator, nodes):
            if any(first <= start and end <= last for first, last in idle):
                continue
            scope = max((scope for scope in scopes if scope[0] <= start[0] <= scope[1]), default=(0, 0, ""))[2]
            inner = ((body[0], line) for _, body, line in functions if body[0] <= start < body[1])
            first_line = max(inner, default=(0, 0))[1]
            mutant = Mutant(source, code, scope, first_line)
            if lines is None or mutant.change[1:] in lines:
                candidates.append(mutant)
    different = {mutant.code: mutant for mutant in reversed(candidates) if _is_code(mutant.code, source)}
    return list(different.values())[::-1]


def changes(source: str, operator: Operator, nodes: Sequence[Placed]) -> Iterator[tuple[Position, str]]:
    """Yields each position that `operator` can change, and the text of the module with this change.

    `nodes`: the nodes of `source`. `cosmic_ray.mutating` gives the same texts, but parses the module for each of them.
    """
    for node, start, end in nodes:
        for index, position in enumerate(operator.mutation_positions(node)):
            yield position, source[:start] + _changed(node, operator, index) + source[end:]


def nodes_of(source: str) -> list[Placed]:
    """Returns all nodes of a module, outer nodes before inner ones, each with the indices of its begin and its end in
    `source`. The space before a node counts."""
    placed: list[Placed] = []

    def add(node: parso.tree.NodeOrLeaf, start: int) -> int:
        index, end = len(placed), start
        placed.append((node, start, start))
        for child in getattr(node, "children", ()):
            end = add(child, end)
        end = end if hasattr(node, "children") else start + len(node.get_code())
        placed[index] = (node, start, end)
        return end

    add(get_ast(source), 0)
    return placed


def _changed(node: parso.tree.NodeOrLeaf, operator: Operator, index: int) -> str:
    """Returns the text of the changed node, and restores the node."""
    fields = [
        (part, name, list(value) if isinstance(value, list) else value)
        for part in ast_nodes(node)
        for name in ("parent", "children", "value", "prefix")
        if (value := getattr(part, name, None)) is not None
    ]
    mutant = operator.mutate(node, index)
    text = "" if mutant is None else str(mutant.get_code())
    for part, name, value in fields:
        setattr(part, name, value)
    return text


def _is_code(code: str, source: str) -> bool:
    """Whether `code` differs from `source` and can be compiled."""
    try:
        ast.parse(code)
    except SyntaxError:  # e.g. `not` before a walrus
        return False
    return code != source


def by_change(mutants_of_module: list[Mutant]) -> dict[Change, Mutant]:
    """Maps each change to its mutant. If several mutants of a scope have the same change, `#2` and so on is added to
    the scope of the later mutants."""
    named: dict[Change, Mutant] = {}
    for mutant in mutants_of_module:
        scope, before, after = mutant.change
        names = itertools.chain([scope], (f"{scope}#{number}" for number in itertools.count(2)))
        named[next((name, before, after) for name in names if (name, before, after) not in named)] = mutant
    return named


def _joined(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines)


def _idle(tree: ast.AST) -> Iterator[Position]:
    for node in ast.walk(tree):
        parts: list[ast.expr | ast.keyword | None] = []
        if isinstance(node, ast.AnnAssign | ast.arg):
            parts = [node.annotation]
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            calls = [decorator for decorator in node.decorator_list if isinstance(decorator, ast.Call)]
            parts = [keyword for call in calls for keyword in call.keywords]
            parts += node.keywords if isinstance(node, ast.ClassDef) else [node.returns]
        for part in parts:
            if part is not None:
                yield (part.lineno, part.col_offset), (part.end_lineno or 0, part.end_col_offset or 0)


def bodies(tree: ast.AST) -> Iterator[tuple[ast.FunctionDef | ast.Lambda, Position, int]]:
    """Yields, for each function and lambda: its node, the place of its body, and the first line of its code object."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            body = node.body[0] if isinstance(node, ast.FunctionDef) else node.body
            decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
            end = (node.end_lineno or 0, node.end_col_offset or 0)
            first_line = min([node.lineno, *(item.lineno for item in decorators)])
            yield node, ((body.lineno, body.col_offset), end), first_line


def _scopes(tree: ast.AST, outer: str = "") -> Iterator[tuple[int, int, str]]:
    """Yields (first line, last line, name) of each function and class. Inner functions and classes come after outer
    ones."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            name = f"{outer}.{node.name}".lstrip(".")
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield first, node.end_lineno or 0, name
            yield from _scopes(node, name)
