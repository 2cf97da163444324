"""Lines that became too long are broken again: docstrings, comments, strings, and paragraphs of Markdown."""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize

WIDTH = 120
_ITEM = re.compile(r"\s*(?:(?:[*-]|\d+\.)\s|(?:Owns|May use|Weak spot): )")


def markdown(before: str, after: str) -> str:
    """Returns `after` with each paragraph filled again that has a longer line than any of `before` had, and is no
    table, heading or code."""
    width = min(130, max((len(line) for line in before.splitlines() if not line.startswith("|")), default=WIDTH))
    known = set(before.splitlines())
    lines = after.splitlines()
    fenced = False
    index = 0
    while index < len(lines):
        line = lines[index]
        fenced ^= line.lstrip().startswith("```")
        if len(line) > width and not fenced and line not in known and not line.lstrip().startswith(("|", "#", "<")):
            end = _end(lines, index, lambda text: text.lstrip().startswith(("|", "#", "<", "```")))
            indent = re.match(r"\s*(?:[*-] |\d+\. )?", line)[0]  # type: ignore[index]
            first = re.match(r"\s*", line)[0]  # type: ignore[index]
            filled = _fill(" ".join(each.strip() for each in lines[index:end]), first, " " * len(indent), width)
            lines[index:end] = filled
            index += len(filled) - 1
        index += 1
    return "\n".join(lines) + ("\n" if after.endswith("\n") else "")


def python(text: str) -> str:
    """Returns Python source without a docstring, comment or string beyond the width, as far as it can be broken."""
    for _ in range(200):
        shorter = _shorter(text)
        if shorter is None or not _is_python(shorter):
            return text
        text = shorter
    return text


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _shorter(text: str) -> str | None:
    lines = text.splitlines()
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
        if token.type not in (tokenize.COMMENT, tokenize.STRING):
            continue
        first, last = token.start[0] - 1, token.end[0] - 1
        long = [index for index in range(first, last + 1) if len(lines[index]) > WIDTH]
        if not long or re.search("noqa|type: ignore", lines[last]):
            continue
        if token.type == tokenize.COMMENT:
            changed = _comment(lines, first, token.start[1])
        elif last > first or token.string.lstrip("rRbB").startswith('"""'):
            changed = _docstring(lines, long[0], first, last)
        else:
            changed = _string(lines, token, depth > 0)
        if changed:
            return "\n".join(lines) + "\n"
    return None


def _comment(lines: list[str], index: int, column: int) -> bool:
    indent = lines[index][:column]
    if indent.strip():
        code, comment = indent.rstrip(), lines[index][column:]
        spaces = re.match(r"\s*", code)[0]  # type: ignore[index]
        lines[index : index + 1] = [*_fill(comment, spaces, f"{spaces}# ", WIDTH), code]
        return True
    end = index + 1
    while end < len(lines) and lines[end].startswith(f"{indent}# ") and not _ITEM.match(lines[end].strip()[1:]):
        end += 1
    body = " ".join(each.strip().removeprefix("#").strip() for each in lines[index:end])
    filled = _fill(body, f"{indent}# ", f"{indent}# ", WIDTH)
    if filled == lines[index:end]:
        return False
    lines[index:end] = filled
    return True


def _docstring(lines: list[str], index: int, first: int, last: int) -> bool:
    def ends(text: str) -> bool:
        return text.strip().startswith(('"""', "```", ">>>", "|"))

    if lines[index].lstrip().startswith(("|", ">>>")):
        return False
    end = index + 1
    while end <= last and lines[end].strip() and not _ITEM.match(lines[end]) and not ends(lines[end]):
        end += 1
    indent = re.match(r"\s*", lines[index])[0]  # type: ignore[index]
    item = re.match(r"\s*(?:[*-] |\d+\. )?", lines[index])[0]  # type: ignore[index]
    hang = re.match(r"\s*", lines[index + 1])[0] if end > index + 1 else " " * len(item)  # type: ignore[index]
    filled = _fill(" ".join(each.strip() for each in lines[index:end]), indent, hang, WIDTH)
    if filled == lines[index:end]:
        return False
    lines[index:end] = filled
    return True


def _string(lines: list[str], token: tokenize.TokenInfo, is_inside: bool) -> bool:
    index = token.start[0] - 1
    line = lines[index]
    match = re.match(r"(?s)([A-Za-z]*)(['\"])(.*)\2\Z", token.string)
    if match is None or token.end[1] < WIDTH:
        return False
    prefix, quote, body = match.groups()
    room = WIDTH - token.start[1] - len(prefix) - 3
    ends = [blank.end() for blank in re.finditer(" ", body) if blank.end() <= min(room, len(body) - 1)]
    slots = [end for end in ends if body[:end].count("{") == body[:end].count("}")]
    if not slots or token.start[1] >= WIDTH - 20:
        return False
    head, tail = body[: slots[-1]], body[slots[-1] :]
    before, after = line[: token.start[1]], line[token.end[1] :]
    opening, closing = ("", "") if is_inside else ("(", ")")
    indent = " " * token.start[1]
    plain = prefix if "{" in tail or "f" not in prefix.lower() else prefix.replace("f", "").replace("F", "")
    headed = prefix if "{" in head or "f" not in prefix.lower() else prefix.replace("f", "").replace("F", "")
    lines[index : index + 1] = [
        f"{before}{opening}{headed}{quote}{head}{quote}",
        f"{indent}{plain}{quote}{tail}{quote}{closing}{after}",
    ]
    return True


def _end(lines: list[str], index: int, stops: object) -> int:
    end = index + 1
    while end < len(lines) and lines[end].strip() and not _ITEM.match(lines[end]) and not stops(lines[end]):  # type: ignore[operator]
        end += 1
    return end


def _fill(text: str, first: str, others: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    )
