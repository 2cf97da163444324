"""The rows of the rename table, and what one row makes of an identifier and of a sentence."""

from __future__ import annotations

import fnmatch
import re
from functools import cached_property
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("renames.toml")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SEGMENT = re.compile(r"_+|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|.")


class Exact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A replacement by hand: `old` becomes `new` in `file` (its name after the row's moves), wherever it stands."""

    file: str
    old: str
    new: str


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """One word or room.

    * `seek`: a pattern; what it finds is counted before and after.
    * `words`: parts of identifiers, as lower-case words with `_` between them, by what they become. Plurals follow.
    * `names`: whole identifiers. They win over `words`.
    * `keep`: identifiers that stay as they are.
    * `prose`: pairs of a pattern and its text, in order, for sentences. A space stands for any white space, case
      follows what was found, and `a` becomes `an` where it must.
    * `moves`: pairs of paths, of files or folders, that move as they stand. File names follow `words` and `names`.
    * `patterns`: a glob of files, a pattern and its text, for what is neither a word nor a sentence.
    * `only`, `skip`: globs of the files that the row may change, and of those that it leaves alone.
    * `room`: a folder of the library and its new name; imports, paths and names of modules follow.
    """

    name: str
    stage: str
    becomes: str
    seek: str
    words: dict[str, str] = {}
    names: dict[str, str] = {}
    keep: list[str] = []
    prose: list[tuple[str, str]] = []
    moves: list[tuple[str, str]] = []
    patterns: list[tuple[str, str, str]] = []
    only: list[str] = []
    skip: list[str] = []
    room: list[str] = []
    exact: list[Exact] = []

    @cached_property
    def _sequences(self) -> dict[tuple[str, ...], list[str]]:
        both: dict[str, str] = {}
        for old, new in self.words.items():
            both.setdefault(plural(old), plural(new))
        both |= self.words
        return {tuple(old.split("_")): new.split("_") for old, new in both.items()}

    @cached_property
    def _longest(self) -> int:
        return max((len(each) for each in self._sequences), default=0)

    @cached_property
    def _phrases(self) -> list[tuple[re.Pattern[str], str]]:
        return [
            (re.compile(rf"(?i)(?:\b(an?)(\s+))?\b({old.replace(' ', chr(92) + 's+')})\b"), new)
            for old, new in self.prose
        ]

    def concerns(self, path: str) -> bool:
        """Returns whether the row may change the file `path`."""
        among = not self.only or any(fnmatch.fnmatch(path, glob) for glob in self.only)
        return among and not any(fnmatch.fnmatch(path, glob) for glob in self.skip)

    def identifier(self, name: str) -> str:
        """Returns what the row makes of a whole identifier."""
        if name in self.keep:
            return name
        if name in self.names:
            return self.names[name]
        if not self._sequences:
            return name
        segments = _SEGMENT.findall(name)
        words = [(index, each) for index, each in enumerate(segments) if not each.startswith("_")]
        result = list(segments)
        index = 0
        while index < len(words):
            for length in range(min(self._longest, len(words) - index), 0, -1):
                matched = words[index : index + length]
                new = self._sequences.get(tuple(each.lower() for _, each in matched))
                if new is not None:
                    _put(result, [slot for slot, _ in matched], new)
                    _article(result, matched[0][0], new[0])
                    index += length
                    break
            else:
                index += 1
        return "".join(result)

    def code(self, text: str, protected: frozenset[str]) -> str:
        """Returns code with each of its identifiers looked up, but for those that are `protected`."""
        return _IDENTIFIER.sub(lambda m: m[0] if m[0] in protected else self.identifier(m[0]), text)

    def collisions(self, text: str, protected: frozenset[str]) -> list[str]:
        """Returns which two identifiers of a file would become one."""
        there = set(_IDENTIFIER.findall(text))
        renamed = ((name, self.identifier(name)) for name in sorted(there - protected))
        return [f"{old} and {new}" for old, new in renamed if old != new and new in there]

    def sentence(self, text: str) -> str:
        """Returns prose with the words and phrases of the row replaced."""
        for pattern, new in self._phrases:
            text = pattern.sub(lambda m, new=new: _phrase(m, new), text)  # type: ignore[misc]
        return text


def _phrase(match: re.Match[str], new: str) -> str:
    article, space, old = match[1], match[2], match[3]
    new = re.sub(r"\\([1-9])", lambda group: match[int(group[1]) + 3] or "", new)
    if old[0].isupper() and not (len(old) > 1 and old.isupper()):
        new = new[:1].upper() + new[1:]
    if article is None:
        return new
    right = "an" if new[:1].lower() in "aeiou" and not new.lower().startswith(("us", "uni", "one")) else "a"
    return f"{right.capitalize() if article[0].isupper() else right}{space}{new}"


def _put(result: list[str], slots: list[int], new: list[str]) -> None:
    first = result[slots[0]]
    if first.isupper() and (len(first) > 1 or len(result) == 1):
        text = "_".join(new).upper()
    elif first[0].isupper():
        text = "".join(each.capitalize() for each in new)
    else:
        text = "_".join(new)
    for slot in range(slots[0], slots[-1] + 1):
        result[slot] = ""
    result[slots[0]] = text


def _article(result: list[str], slot: int, word: str) -> None:
    if slot >= 2 and result[slot - 2] in ("a", "an"):
        result[slot - 2] = "an" if word[0] in "aeiou" and not word.startswith(("us", "uni", "one")) else "a"


def plural(word: str) -> str:
    """Returns the plural of an English noun, by the regular rules."""
    if re.search(r"[^aeiou]y$", word):
        return f"{word[:-1]}ies"
    return f"{word}es" if re.search(r"(?:s|x|ch|sh)$", word) else f"{word}s"


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    row: list[Row]


def rows() -> dict[str, Row]:
    """Returns the rows by name, in the order in which they are to be applied."""
    table = msgspec.toml.decode(FILE.read_bytes(), type=_Table)
    assert len({row.name for row in table.row}) == len(table.row)
    return {row.name: row for row in table.row}
