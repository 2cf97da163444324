"""The rules of the code's architecture, as functions over a tree of files. Each function yields one line per offence.

The functions read source text and import nothing from it. A test can therefore make each function fail with a tiny
broken tree.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

LIBRARY = "delivery_verifier"


def sources(packages: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """Yields (dotted name, file) of every module of `packages`. A package is a folder, or a file, on Python's path."""
    for package in packages:
        files = [package] if package.is_file() else sorted(package.rglob("*.py"))
        for file in files:
            parts = file.relative_to(package.parent).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), file


def _tree(file: Path) -> ast.Module:
    """Returns the syntax tree of a file, which most rules read. Rules change no tree."""
    return _parsed(file.read_text())


@functools.cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


@functools.cache
def _nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree))


def imported(file: Path, *, types_too: bool = True) -> Iterator[tuple[int, str]]:
    """Yields (line, dotted name) of every import, also inside functions. The name of `from a import b` is `a.b`.

    Without `types_too`, imports below `if TYPE_CHECKING` are left out.
    """
    tree = _tree(file)
    types = set() if types_too else {node for block in _nodes(tree) if _for_types(block) for node in ast.walk(block)}
    for node in _nodes(tree):
        if node in types:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def room_of(dotted: str, library: str = LIBRARY) -> str:
    """Returns the room of a module: the first name below the library, or the top-level package itself."""
    return _inside(dotted, library).split(".")[0]


def _inside(dotted: str, library: str = LIBRARY) -> str:
    """Returns the dotted name of a module without the library's name in front, as the table of rooms writes it."""
    return dotted.removeprefix(f"{library}.")


def imports_against_the_table(
    packages: Iterable[Path], may_use: Mapping[str, Collection[str]], library: str = LIBRARY
) -> Iterator[str]:
    """Yields imports of a room (a package of the library), or of a part of a room, that the importing room may not use.

    `may_use` maps a room to the rooms that it may use. The entry `load.layout` allows only this module of the room
    `load`. A room that is missing in the table is an offence, too, because the table must say what every room may use.
    `library`: the package whose folders and modules are the rooms.
    """
    for module, file in sources(packages):
        room = room_of(module, library)
        if room not in may_use:
            yield f"{module}: the table of rooms does not know {room}"
            continue
        for line, name in imported(file):
            target = room_of(name, library)
            if target in (room, library) or target not in may_use:
                continue
            inside = _inside(name, library)
            if not any(_is_part(inside, allowed) for allowed in may_use[room]):
                yield f"{module}:{line}: {room} may not use {inside}"


def _is_part(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def import_circles(packages: Iterable[Path]) -> Iterator[str]:
    """Yields circles of modules that import each other at the top of their files."""
    modules = dict(sources(packages))
    arrows = {name: _at_import_time(file, modules) - {name} for name, file in modules.items()}
    state: dict[str, int] = {}

    def visit(name: str, path: tuple[str, ...]) -> Iterator[str]:
        state[name] = 1
        for target in sorted(arrows[name]):
            if state.get(target) == 1:
                yield " -> ".join((*path[path.index(target) :], target))
            elif target not in state:
                yield from visit(target, (*path, target))
        state[name] = 2

    for name in sorted(modules):
        if name not in state:
            yield from visit(name, (name,))


def _at_import_time(file: Path, modules: Collection[str]) -> set[str]:
    """Returns the modules that are imported when `file` is imported. Imports below `if TYPE_CHECKING` do not count."""
    targets: set[str] = set()
    for node in _tree(file).body:
        if isinstance(node, ast.Import):
            targets |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            targets |= {name if name in modules else node.module for name in names}
    return targets & set(modules)


def imports_elsewhere(
    packages: Iterable[Path], import_points: Mapping[str, Collection[str]], library: str = ""
) -> Iterator[str]:
    """Yields imports of a heavy dependency by a module that may not import it.

    `import_points` maps a package to its import points: the modules or rooms that may import the package. If `library`
    is given, the packages are the rooms of this library. Imports below `if TYPE_CHECKING` are allowed, because they are
    never executed.
    """
    for module, file in sources(packages):
        for line, name in imported(file, types_too=False):
            package = name.removeprefix(f"{library}.").split(".")[0]
            if package in import_points and not any(
                _is_part(_inside(module), gateway) for gateway in import_points[package]
            ):
                yield f"{module}:{line}: {package} is imported beside its import points"


def long_files(packages: Iterable[Path], most: int) -> Iterator[str]:
    """Yields files of more than `most` lines of code."""
    for module, file in sources(packages):
        lines = len(_lines_of_code(file.read_text()))
        if lines > most:
            yield f"{module}: {lines} lines of code"


def long_functions(packages: Iterable[Path], most: int) -> Iterator[str]:
    """Yields functions of more than `most` lines of code."""
    for module, file in sources(packages):
        code = _lines_of_code(file.read_text())
        for node in _nodes(_tree(file)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = len(code & {*range(node.lineno, (node.end_lineno or node.lineno) + 1)})
                if lines > most:
                    yield f"{module}:{node.lineno}: {node.name} has {lines} lines of code"


@functools.cache
def _lines_of_code(text: str) -> frozenset[int]:
    """Returns the numbers of all lines but those that are blank, hold only a comment, or belong to a docstring. What
    stands in other texts of several lines counts, unless it begins with `#`."""
    docstrings: set[int] = set()
    for node in _nodes(_parsed(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return frozenset(number for number, line in lines if line and line[0] != "#" and number not in docstrings)


PRIVATE_NAMES = frozenset(
    ("it", "one", "told", "found", "made", "given", "seen", "wanted", "kept", "left", "at", "of", "place")
)
PRIVATE_PREFIXES = tuple(f"_{word}" for word in ("told", "found", "made", "seen", "given", "wanted", "kept"))


def private_names(packages: Iterable[Path]) -> Iterator[str]:
    """Yields variables, parameters and functions whose names say nothing to a reader who is new.

    Such names are PRIVATE_NAMES, with or without a leading `_`, and names of functions that begin with one of
    PRIVATE_PREFIXES. Fields of classes are allowed, because some fields are published. `left` is allowed in a module
    that has a `right`.
    """
    for module, file in sources(packages):
        tree = _tree(file)
        fields = {field.target for node in _nodes(tree) for field in _fields(node)}
        names = {name for node in _nodes(tree) for _, name in _defined_names(node)}
        sides = {"left"} if "right" in names else set()
        for node in _nodes(tree):
            for line, name in _defined_names(node):
                is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                is_private = name.lstrip("_") in PRIVATE_NAMES or (is_function and name.startswith(PRIVATE_PREFIXES))
                if is_private and node not in fields and name not in sides:
                    yield f"{module}:{line}: {name} is a private name"


def _fields(node: ast.AST) -> list[ast.AnnAssign]:
    """Returns the annotated fields of a class; empty for any other node."""
    return [item for item in node.body if isinstance(item, ast.AnnAssign)] if isinstance(node, ast.ClassDef) else []


def _defined_names(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yields (line, name) of the variable, parameter or function that a node defines; nothing for any other node."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.lineno, node.id
    elif isinstance(node, ast.arg):
        yield node.lineno, node.arg
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ExceptHandler) and node.name:
        yield node.lineno, node.name


HEADINGS = ("Owns: ", "May use: ", "Weak spot: ")


def silent_rooms(folders: Mapping[str, Path], may_use: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Yields rooms (packages) whose `__init__` does not say what the room owns, what it may use, and where it is weak.

    The rooms that the `__init__` names as usable must be those of the table `may_use`.
    """
    for room, folder in folders.items():
        init = folder / "__init__.py"
        docstring = (ast.get_docstring(_tree(init)) if init.is_file() else None) or ""
        lines = [line.strip() for line in docstring.splitlines()]
        missing = [heading.strip() for heading in HEADINGS if not any(line.startswith(heading) for line in lines)]
        if missing:
            yield f"{room}: its __init__ does not say {', '.join(missing)}"
            continue
        said = _paragraph(lines, "May use: ").rstrip(".")
        names = set() if said in ("nothing of ours", "no other folder") else {name.strip() for name in said.split(",")}
        if names != set(may_use[room]):
            yield f"{room}: its __init__ says it may use {sorted(names)}; the table says {sorted(may_use[room])}"


def _paragraph(lines: list[str], heading: str) -> str:
    """Returns the text behind a heading, up to the next heading or an empty line."""
    start = next(index for index, line in enumerate(lines) if line.startswith(heading))
    text = [lines[start].removeprefix(heading)]
    for line in lines[start + 1 :]:
        if not line or line.startswith(HEADINGS):
            break
        text.append(line)
    return " ".join(text)


class Concept(NamedTuple):
    """A concept: a set of members, such as all anomalies. Tables in the code list these members.

    `spellings` maps every way in which a table may write a member to the member.
    """

    name: str
    spellings: Mapping[str, str]
    dicts_only: bool = False
    """Whether only dicts count as tables of the concept. A list of some of its members is then no table."""

    @property
    def members(self) -> set[str]:
        """All members of the concept."""
        return set(self.spellings.values())


def partial_tables(packages: Iterable[Path], concepts: Iterable[Concept]) -> Iterator[str]:
    """Yields tables of a concept that lack a member and do not say why.

    A table is a dict, set, list or tuple literal that names at least two members, as keys or items. A table that lacks
    members on purpose stands inside a call of `subset(reason, table)` with a reason.
    """
    for module, file in sources(packages):
        tree = _tree(file)
        explained = {node for call in _nodes(tree) if _gives_a_reason(call) for node in ast.walk(call)}
        for node in _nodes(tree):
            for concept in concepts:
                named = {concept.spellings[item] for item in _items(node, concept) if item in concept.spellings}
                if len(named) > 1 and named != concept.members and node not in explained:
                    lacking = ", ".join(sorted(concept.members - named))
                    yield f"{module}:{node.lineno}: a table of {concept.name} lacks {lacking}"  # type: ignore[attr-defined]


def _gives_a_reason(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "subset" and node.args):
        return False
    return isinstance(node.args[0], ast.Constant) and bool(str(node.args[0].value).strip())


def _items(node: ast.AST, concept: Concept) -> Iterator[str]:
    """Yields the names in a literal: strings, and attributes such as `Anomaly.LOST`."""
    items: list[ast.expr] = []
    if isinstance(node, ast.Dict):
        items = [key for key in node.keys if key is not None]
    elif isinstance(node, ast.Set | ast.List | ast.Tuple) and not concept.dicts_only:
        items = node.elts
    for item in items:
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            yield item.value
        elif isinstance(item, ast.Attribute) and isinstance(item.value, ast.Name):
            yield f"{item.value.id}.{item.attr}"


def stale_imports(readers: Iterable[Path], packages: Iterable[Path]) -> Iterator[str]:
    """Yields imports of `readers` that name what none of `packages` has: a module, or a name in a module.

    Imports from elsewhere are not checked.
    """
    files = dict(sources(packages))
    roots = {module.split(".")[0] for module in files}
    names = {module: _names(_tree(file)) for module, file in files.items()}
    for reader, file in sources(readers):
        for line, name in imported(file):
            module, _, last = name.rpartition(".")
            if name.split(".")[0] in roots and name not in files and last not in names.get(module, ()):
                yield f"{reader}:{line}: there is no {name}"


def _names(tree: ast.AST) -> set[str]:
    """Returns every name that a module binds, wherever it binds the name."""
    found = set[str]()
    for node in _nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


def floors(may_use: Mapping[str, Iterable[str]]) -> dict[int, list[str]]:
    """Returns the rooms of each floor, the highest floor first. A room stands one floor above the highest of the rooms
    that it may use; a room that may use none stands on floor 1. `may_use` must have no circle."""

    def floor(room: str) -> int:
        return 1 + max((floor(used.split(".")[0]) for used in may_use[room]), default=0)

    by_floor: dict[int, list[str]] = {}
    for room in may_use:
        by_floor.setdefault(floor(room), []).append(room)
    return dict(sorted(by_floor.items(), reverse=True))


def picture(may_use: Mapping[str, Iterable[str]]) -> str:
    """Returns the floors of the house as a text, one line for each floor."""
    return "\n".join(f"{number:2}  {'   '.join(rooms)}" for number, rooms in floors(may_use).items())
