"""Which stretch of a file is code and which is prose, and how each kind of file is rewritten piece by piece.

A rewriter is called with the parts of a file. `names` gets code: each identifier in it is looked up by itself. `prose`
gets sentences: words and phrases are looked up there. An identifier, a path or a text in backticks that stands in a
sentence is code again.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Rewrite = Callable[[str], str]

_CODE_IN_PROSE = re.compile(
    r"`[^`\n]+`"
    r"|\"[\w.-]+\"|(?<!\w)'[\w.-]+'(?!\w)"
    r"|\{[^{}\n]*\}"
    r"|\$\w+|--[\w-]+"
    r"|[\w.-]*(?:_|/[\w.]|\.(?:py|md|toml|json|parquet|j2|css|js|log)\b)[\w./:-]*"
    r"|\b\w+\.[a-z_]\w*(?:\.\w+)*"
    r"|\b[A-Za-z]*[a-z][A-Z]\w*"
    r"|\b[A-Z]{2,}\b"
)
_LINK = re.compile(r"(?<=\])\([^)\s]+\)")
_MARKUP = re.compile(r"\{#.*?#\}|\{[{%].*?[%}]\}|<(?:script|style)\b.*?</(?:script|style)>|<[^<>]+>", re.S)
_QUOTED = re.compile(r"'''.*?'''|\"\"\".*?\"\"\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|(?<![\w&$])#[^\n]*", re.S)
_CODE_KEY = re.compile(r"^(?:old|new|before|after|scope)\s*=\s*$")
_STRING = re.compile(r"(?s)([A-Za-z]*)('''|\"\"\"|'|\")(.*)\2\Z")


@dataclass(frozen=True)
class Rewriter:
    """What is done to code (`names`) and to sentences (`prose`)."""

    names: Rewrite
    prose: Rewrite

    def sentence(self, text: str) -> str:
        """Returns `text` with its prose and the code in it rewritten."""
        return _pieces(text, _CODE_IN_PROSE, self.names, self.prose)

    def string(self, literal: str) -> str:
        """Returns a string literal rewritten: as code if it is one word, as a sentence otherwise."""
        match = _STRING.match(literal)
        if match is None:
            return self.names(literal)
        prefix, quote, body = match.groups()
        if _is_program(body):
            return f"{prefix}{quote}{self.python(body)}{quote}"
        text = self.sentence if re.search(r"\s", body.strip()) else self.names
        rewritten = "".join(
            self._expression(piece) if is_expression else text(piece)
            for piece, is_expression in (_parts(body) if "f" in prefix.lower() else [(body, False)])
        )
        return f"{prefix}{quote}{rewritten}{quote}"

    def _expression(self, text: str) -> str:
        try:
            return self.python(f"({text})")[1:-1]
        except (SyntaxError, tokenize.TokenError):
            return self.names(text)

    def python(self, text: str) -> str:
        """Returns Python source rewritten token by token. Raises SyntaxError or TokenError if it is none."""
        lines = text.splitlines(keepends=True)
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        pieces: list[str] = []
        index = 0
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type not in (tokenize.NAME, tokenize.STRING, tokenize.COMMENT):
                continue
            start = starts[token.start[0] - 1] + token.start[1]
            rewritten = {tokenize.NAME: self.names, tokenize.STRING: self.string, tokenize.COMMENT: self.sentence}[
                token.type
            ](token.string)
            pieces += [text[index:start], rewritten]
            index = starts[token.end[0] - 1] + token.end[1]
        return "".join([*pieces, text[index:]])

    def markdown(self, text: str) -> str:
        """Returns a page of Markdown rewritten; the anchor of a link follows the words of its heading."""
        return _pieces(text, _LINK, self._target, self.sentence)

    def markup(self, text: str) -> str:
        """Returns a template or a page of HTML rewritten."""

        def marked(tag: str) -> str:
            return self.sentence(tag) if tag.startswith("{#") else self.names(tag)

        return _pieces(text, _MARKUP, marked, self.sentence)

    def settings(self, text: str) -> str:
        """Returns TOML, YAML, JSON, a Makefile or a script rewritten. Code that a table of breaks or mutants quotes
        is code."""

        def quoted(piece: str, before: str) -> str:
            if piece.startswith("#"):
                return self.sentence(piece)
            if _CODE_KEY.match(before.rpartition("\n")[2]):
                return self.names(piece)
            return self.string(piece)

        pieces: list[str] = []
        index = 0
        for match in _QUOTED.finditer(text):
            pieces += [self.names(text[index : match.start()]), quoted(match[0], text[: match.start()])]
            index = match.end()
        return "".join([*pieces, self.names(text[index:])])

    def file(self, path: Path, text: str) -> str:
        """Returns the content of the file `path` rewritten as its kind asks for."""
        match path.suffix:
            case ".py":
                return self.python(text)
            case ".md":
                return self.markdown(text)
            case ".j2" | ".html" | ".jinja":
                return self.markup(text)
            case ".css" | ".js":
                return self.names(text)
            case _:
                return self.settings(text)

    def _target(self, target: str) -> str:
        path, mark, anchor = target[1:-1].partition("#")
        if mark:
            anchor = self.sentence(anchor.replace("-", " ")).replace(" ", "-")
        return f"({self.names(path)}{mark}{anchor})"


def _parts(body: str) -> list[tuple[str, bool]]:
    """Returns the pieces of an f-string, each with whether it is an expression in braces."""
    parts: list[tuple[str, bool]] = []
    depth, begun, index = 0, 0, 0
    while index < len(body):
        if depth == 0 and body[index : index + 2] in ("{{", "}}"):
            index += 2
            continue
        if body[index] == "{":
            if depth == 0:
                parts.append((body[begun:index], False))
                begun = index
            depth += 1
        elif body[index] == "}" and depth:
            depth -= 1
            if depth == 0:
                parts.append((body[begun : index + 1], True))
                begun = index + 1
        index += 1
    return [*parts, (body[begun:], False)]


def _is_program(body: str) -> bool:
    if not re.search(r"(?m)^\s*(?:import|from|def|class|if|with|while|for|try)\b.*$", body):
        return False
    try:
        ast.parse(body)
    except (SyntaxError, ValueError):
        return False
    return "\n" in body


def _pieces(text: str, special: re.Pattern[str], inside: Rewrite, outside: Rewrite) -> str:
    pieces: list[str] = []
    index = 0
    for match in special.finditer(text):
        pieces += [outside(text[index : match.start()]), inside(match[0])]
        index = match.end()
    return "".join([*pieces, outside(text[index:])])
