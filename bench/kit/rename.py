"""Renames words and rooms in the whole checkout, by the table bench/kit/words/renames.toml.

    .venv/bin/python -m bench.kit.rename --list
    .venv/bin/python -m bench.kit.rename keeper excuse --commit
    .venv/bin/python -m bench.kit.rename --stage words --commit

The stages are `words` (code, texts, file names), `rooms` (folders of the library) and `format` (names that stand in
stored files, too: one commit, after which the stored runs of the tests are made anew). A row that was applied changes
nothing when it is applied again. `--commit` makes one commit per row, and lists them in .git-blame-ignore-revs.

A line `now have one name: a and b` names a file in which two names became one: read that file. Exit code 1: a
replacement by hand found neither its old nor its new text, a file is there already, or it does not parse any more.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.kit.words import wrap
from bench.kit.words.table import Row, rows
from bench.kit.words.texts import Rewriter

ROOT = Path(__file__).resolve().parents[2]
LEFT_ALONE = (
    *("docs/results/", "tests/data/", "uv.lock", "LICENSE", ".git-blame", "changes/rename"),
    *("bench/kit/words/", "bench/kit/rename.py", "docs/glossary-contributors.md"),
)
TEXTS = {".py", ".md", ".toml", ".json", ".yml", ".yaml", ".j2", ".jinja", ".html", ".css", ".js", ".sh", ".properties"}
FORMAT = "format"
IGNORED = ".git-blame-ignore-revs"


def main(arguments: Sequence[str] | None = None) -> int:
    """Applies the rows that are named, or all of a stage, and prints what each counted before and after."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", nargs="*", help="names of rows, applied in the order of the table")
    parser.add_argument("--stage", choices=["words", "rooms", FORMAT], help="all rows of a stage")
    parser.add_argument("--commit", action="store_true", help="one commit per row")
    parser.add_argument("--list", action="store_true", help="print the rows with what they find, and change nothing")
    options = parser.parse_args(arguments)
    table = rows()
    unknown = [name for name in options.row if name not in table]
    if unknown:
        parser.error(f"row: {', '.join(unknown)}: allowed: {', '.join(table)}")
    chosen = [row for row in table.values() if row.name in options.row or row.stage == options.stage]
    if options.list:
        for row in chosen or table.values():
            print(f"{row.name:16} {row.stage:7} {_count(row):6}  {row.becomes}")
        return 0
    if options.commit and _git("status", "--porcelain", "--untracked-files=no"):
        parser.error("--commit: the checkout has changes; allowed: a clean checkout; commit or stash them first")
    protected = frozenset(name for row in table.values() if row.stage == FORMAT for name in row.names)
    failed, commits = False, list[str]()
    for row in chosen:
        before = _count(row)
        problems, notes = _apply(row, frozenset() if row.stage == FORMAT else protected)
        print(f"{row.name:20} {before:6} -> {_count(row):6}", *problems, *notes, sep="\n  ", flush=True)
        failed |= bool(problems)
        if options.commit and row.stage != FORMAT:
            commits += _committed(f"words: {row.name}: {row.becomes}", "By bench/kit/rename.py.")
    if options.commit and any(row.stage == FORMAT for row in chosen):
        body = "\n".join(f"* {row.becomes}" for row in chosen if row.stage == FORMAT)
        commits += _committed("words: names in files, columns and messages", f"{body}\n\nBy bench/kit/rename.py.")
    if commits:
        lines = (
            (ROOT / IGNORED).read_text()
            + "# words and rooms get other names\n"
            + "".join(f"{each}\n" for each in commits)
        )
        (ROOT / IGNORED).write_text(lines)
        _committed("words: git blame passes over the commits that rename", "")
    return int(failed)


def _committed(subject: str, body: str) -> list[str]:
    """Commits what has changed. Returns the id of the commit; nothing if nothing has changed."""
    if not _git("status", "--porcelain"):
        return []
    _git("add", "-A")
    _git("commit", "-q", "-m", subject, *(["-m", body] if body else []))
    return [_git("rev-parse", "HEAD").strip()]


def _apply(row: Row, protected: frozenset[str]) -> tuple[list[str], list[str]]:
    problems, notes = _move(row, protected), list[str]()
    changed: list[Path] = []
    for path in _files():
        if not row.concerns(path):
            continue
        file = ROOT / path
        text = file.read_text()
        try:
            new = _rewritten(row, protected, path, text)
        except (SyntaxError, ValueError) as error:
            problems.append(f"{path}: {error}")
            continue
        if new != text:
            if path.endswith(".py"):
                met = row.collisions(text, protected)
                notes += [f"{path}: now have one name: {', '.join(met)}"] if met else []
            file.write_text(new)
            changed.append(file)
    for exact in row.exact:
        problems += _exact(exact.file, exact.old, exact.new, changed)
    _tidy([file for file in changed if file.suffix == ".py"])
    return problems, notes


def _rewritten(row: Row, protected: frozenset[str], path: str, text: str) -> str:
    new = text
    for glob, pattern, replacement in [*row.patterns, *room_patterns(row)]:
        if fnmatch.fnmatch(path, glob):
            new = re.sub(pattern, replacement, new, flags=re.M)
    if not row.room and re.search(row.seek, new, re.I):
        rewriter = Rewriter(names=lambda code: row.code(code, protected), prose=row.sentence)
        new = rewriter.file(Path(path), new)
    if new != text and path.endswith(".py"):
        ast.parse(new)
        new = wrap.python(new)
    if new != text and path.endswith(".md"):
        new = wrap.markdown(text, new)
    return new


def room_moves(row: Row) -> list[tuple[str, str]]:
    """Returns the folders of a row's room, in the library and in tests/unit, with their new names."""
    if not row.room:
        return []
    old, new = row.room
    return [(f"{slot}/{old}", f"{slot}/{new}") for slot in ("plugins/delivery_verifier", "tests/unit")]


def room_patterns(row: Row) -> list[tuple[str, str, str]]:
    """Returns the patterns that find a row's room: imports, dotted names, paths, and the tables and texts on rooms."""
    if not row.room:
        return []
    old, new = row.room
    folder = ROOT / "plugins/delivery_verifier" / new
    parts = "|".join(
        sorted({path.stem for path in folder.iterdir() if not path.name.startswith(("_", "."))}, reverse=True)
    )
    first = "A-Za-z0-9_/.-"
    return [
        ("*", rf"\bdelivery_verifier([./]){old}\b", rf"delivery_verifier\1{new}"),
        ("*", rf"\b(from delivery_verifier import .*)\b{old}\b", rf"\1{new}"),
        ("*", rf"\bunit/{old}/", f"unit/{new}/"),
        ("*", rf"(?<![{first}]){old}/(?=(?:{parts}|test_[a-z_]+)\b)", f"{new}/"),
        ("*", rf"(?<=LIBRARY\}}/){old}/", f"{new}/"),
        ("*__init__.py", rf"(May use:(?:[^.]|\.(?=\w))*?)(?<![\w.]){old}(?!\w)", rf"\1{new}"),
        ("docs/how-it-is-built.md", rf"^( ?\d+  .*)\b{old}\b", rf"\1{new}"),
        ("docs/how-it-is-built.md", rf"^\| `{old}` \|", f"| `{new}` |"),
        ("*", rf"(?<=[`\"']){old}\.(?=(?:{parts})\b(?!\())", f"{new}."),
        ("*.md", rf"(?<=`){old}/(?=`)", f"{new}/"),
        ("tests/unit/test_architecture.py", rf"(?<=[\" ]){old}(?=[\" ])(?=[A-Za-z_. {{}}]*\")", new),
        ("tests/gate.toml", rf"^(rooms = .*)\"{old}\"", rf'\1"{new}"'),
    ]


def _exact(name: str, old: str, new: str, changed: list[Path]) -> list[str]:
    file = ROOT / name
    if not file.exists():
        return [f"{name}: by hand: there is no such file"]
    text = file.read_text()
    if old not in text:
        return [] if new in text else [f"{name}: by hand: found neither the old nor the new text: {old[:70]!r}"]
    file.write_text(text.replace(old, new))
    changed.append(file)
    return []


def _move(row: Row, protected: frozenset[str]) -> list[str]:
    problems: list[str] = []
    for old, new in [*row.moves, *room_moves(row)]:
        if (ROOT / old).exists():
            (ROOT / new).parent.mkdir(parents=True, exist_ok=True)
            _git("mv", old, new)
            shutil.rmtree(ROOT / old, ignore_errors=True)
    for path in _files():
        if not row.concerns(path):
            continue
        new = row.code(path, protected)
        if new != path:
            if (ROOT / new).exists():
                problems.append(f"{path}: is not moved: there is a {new}")
                continue
            (ROOT / new).parent.mkdir(parents=True, exist_ok=True)
            _git("mv", path, new)
    return problems


def _tidy(files: list[Path]) -> None:
    if not files:
        return
    there = [str(file) for file in dict.fromkeys(files) if file.exists()]
    beside = Path(sys.executable).with_name("ruff")
    ruff = str(beside) if beside.exists() else "ruff"
    subprocess.run([ruff, "check", "--quiet", "--select", "I", "--fix", *there], cwd=ROOT, check=False)
    subprocess.run([ruff, "format", "--quiet", *there], cwd=ROOT, check=False)
    for file in there:
        text = Path(file).read_text()
        new = wrap.python(text)
        if new != text:
            Path(file).write_text(new)
    subprocess.run([ruff, "format", "--quiet", *there], cwd=ROOT, check=False)


def _files() -> Iterator[str]:
    """Yields the tracked texts of the checkout, as paths from its root."""
    for path in sorted(set(_git("ls-files", "-c").splitlines())):
        named = Path(path).suffix in TEXTS or "." not in Path(path).name
        if named and not path.startswith(LEFT_ALONE) and (ROOT / path).is_file():
            yield path


def _count(row: Row) -> int:
    pattern = re.compile(row.seek, re.I)
    return sum(len(pattern.findall((ROOT / path).read_text())) + len(pattern.findall(path)) for path in _files())


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    raise SystemExit(main())
