"""A field of a run: what the declaration of a run (see `request`) says about it, and what follows from that.

The check of a value, the option of `kdv run` and the JSON schema of the trigger form are derived from the declaration.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from delivery_verifier.model.inputs import bad_input, choice, decimal, whole

MOST = 10**11
"""The upper limit of a number for which nothing else declares one."""


Part = Literal["producer", "topic"]
"""The parts of a profile that hold settings, by the names of the fields of `Profile`."""


class Words(Struct, frozen=True, kw_only=True):
    """What a declaration says of a field beside its type, limits, default, title and description.

    In `help` and in a description, `{default}` stands for the default, and `{least}` for the lower limit.
    """

    group: str = ""
    """The heading in `--help`. Empty: the command line has no option for the field."""
    option: str = ""
    """The name of an option of which each use gives one setting; the field holds them all, one to a line. Empty: the
    option has the name of the field, and gives its value."""
    help: str = ""
    """The help of the option. Empty: the first sentence of the description, and the default."""
    metavar: str = ""
    """What stands for the value in `--help`. Empty: N for a number, S for seconds, or all choices in braces."""
    section: str = ""
    """The key of the form's section, see `request.SECTIONS`. Empty: the field is always visible."""
    choices: Callable[[], Mapping[str, str]] | None = None
    """Returns the label of each allowed value, by value. None: a Literal allows its own values, else any text is
    allowed."""
    empty: str = ""
    """The label of the empty choice, if the field may be empty."""
    examples: Callable[[], tuple[str, ...]] | None = None
    """Returns values that the form proposes. Without it, a text has several lines."""
    remedy: str = ""
    """What an error says to do if no choice is similar to the value."""
    example: int | None = None
    """The number that an error proposes. None: the default."""
    check: Callable[[str, object], object] | None = None
    """Takes the name and the value of the field, and returns the value. Raises BadInput. None: the type decides."""
    beside_a_scenario: Literal["counts", "settled", "refused"] = "settled"
    """What becomes of the value if a scenario of the catalogue is named. `settled`: the form's value is ignored."""
    is_of_profile: bool = False
    """Whether the field describes the subject's profile. The command that repeats a run then describes the profile."""
    is_stated: bool = False
    """Whether the command that repeats a run has the option even if the user gave the default."""
    sets: tuple[Part, str] | None = None
    """The setting of the subject's profile that the value replaces. The default is None: as the profile says."""


class Field(Struct, frozen=True, dict=True):
    """A field of a run, whole: its name, its type without None, its limits and texts, its default, and its words."""

    name: str
    type: Any
    is_optional: bool
    meta: Meta
    default: Any
    words: Words

    def check(self, value: object) -> Any:
        """Returns `value`, which is not None, in the type of the field. A number may be text, as from a command line.

        Raises BadInput if the value is not allowed.
        """
        if self.words.check:
            return self.words.check(self.name, value)
        if self.type is int:
            return whole(self.name, value, self.least, self.most, self._example)
        if self.type is float:
            low, is_above = (self.meta.ge, False) if self.meta.gt is None else (self.meta.gt, True)
            high = MOST if self.meta.le is None else self.meta.le
            return decimal(self.name, value, low or 0, high, above=is_above)
        if self.has_choices:
            return choice(self.name, value, self.choices, self.words.remedy)
        if self.type is str and not isinstance(value, str):
            raise bad_input(self.name, value, "a text")
        return value

    @property
    def least(self) -> int:
        """The least allowed whole number."""
        return int(self.meta.ge or 0) if self.meta.gt is None else int(self.meta.gt) + 1

    @property
    def most(self) -> int:
        """The greatest allowed whole number."""
        if self.meta.lt is not None:
            return int(self.meta.lt) - 1
        return MOST if self.meta.le is None else int(self.meta.le)

    @property
    def _example(self) -> int | None:
        return self.default if self.words.example is None else self.words.example

    @property
    def has_choices(self) -> bool:
        """Whether the value is one of several names."""
        return self.words.choices is not None or get_origin(self.type) is Literal

    @property
    def choices(self) -> Mapping[str, str]:
        """The label of each allowed name, by name."""
        return self.words.choices() if self.words.choices else {value: value for value in get_args(self.type)}

    @property
    def option(self) -> str:
        """The name of the option of `kdv run`, with underscores. Empty if there is none."""
        return (self.words.option or self.name) if self.words.group else ""

    @property
    def title(self) -> str:
        """The heading of the field in the form. Empty if the form does not offer the field."""
        return self.meta.title or ""

    @property
    def description(self) -> str:
        """The explanation of the field in the form."""
        return self._filled(self.meta.description or "")

    @cached_property
    def argument(self) -> dict[str, Any]:
        """The arguments that argparse takes for the option."""
        more = {"action": "append"} if self.words.option else {}
        return {**more, "metavar": self._metavar, "help": self.help.replace("%", "%%")}

    @property
    def help(self) -> str:
        """The explanation of the option."""
        if self.words.help:
            return self._filled(self.words.help)
        sentence = self.description.partition(". ")[0].rstrip(".")
        default = "" if self.default is None else f" (default {self.default})"
        return f"{sentence[:1].lower()}{sentence[1:]}{default}"

    @property
    def _metavar(self) -> str:
        if self.words.metavar or self.words.option:
            return self.words.metavar or "NAME=VALUE"
        if self.type in (int, float):
            return "S" if self.name.endswith("_s") else "N"
        return "{" + ",".join(self.choices) + "}" if self.has_choices else "TEXT"

    def _filled(self, text: str) -> str:
        return text.format(default=self.default, least=self.least)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the field in Airflow's form, without the section."""
        texts = {"title": self.title, "description": self.description}
        if self.has_choices:
            labels = dict(self.choices)
            if self.is_optional:
                empty = {"enum": [None, *labels], "values_display": {"None": self.words.empty, **labels}}
                return {"type": ["string", "null"], **empty, **texts}
            return {"type": "string", "enum": list(labels), "values_display": labels, **texts}
        kind = {int: "integer", float: "number"}.get(self.type, "string")
        if self.words.examples:
            texts["examples"] = list(self.words.examples())  # type: ignore[assignment]
        elif kind == "string":
            texts["format"] = "multiline"
        return {"type": [kind, "null"] if self.is_optional else kind, **self._bounds, **texts}

    @property
    def _bounds(self) -> dict[str, int | float]:
        """The limits of a number in JSON schema.

        The limits of whole numbers are exclusive. Airflow then refuses a value outside when the run is triggered. With
        inclusive limits, the UI would silently replace such a value by the limit.
        """
        meta = self.meta
        if self.type is int:
            is_bounded = meta.le is not None or meta.lt is not None
            return {"exclusiveMinimum": self.least - 1, **({"exclusiveMaximum": self.most + 1} if is_bounded else {})}
        names = {"minimum": meta.ge, "exclusiveMinimum": meta.gt, "maximum": meta.le, "exclusiveMaximum": meta.lt}
        return {name: limit for name, limit in names.items() if limit is not None}


def like(owner: type[Struct], name: str, *, ge: int | None = None, le: int | None = None, **texts: Any) -> Meta:
    """Returns `texts`, and the limits that the class `owner` has for its number `name`. `ge`: a higher lower limit.
    `le`: a lower upper limit."""
    number: Any = next(each for each in msgspec.inspect.type_info(owner).fields if each.name == name).type  # type: ignore[attr-defined]
    if isinstance(number, msgspec.inspect.UnionType):
        number = next(each for each in number.types if not isinstance(each, msgspec.inspect.NoneType))
    limits = {limit: getattr(number, limit) for limit in ("ge", "gt", "le", "lt")}
    narrower = {limit: value for limit, value in (("ge", ge), ("le", le)) if value is not None}
    return Meta(**limits | narrower, **texts)


def fields_of(declaration: type[Struct]) -> dict[str, Field]:
    """Returns the fields of `declaration` by name, in its order. Each is annotated with its Words, and with Meta if it
    has limits or texts. Raises TypeError if a field lacks Words, sets a setting by default, or has a type whose values
    nothing checks."""
    hints = get_type_hints(declaration, include_extras=True)
    return {
        each.name: _field(each.name, hints[each.name], each.default) for each in msgspec.structs.fields(declaration)
    }


def _field(name: str, hint: Any, default: Any) -> Field:
    declared, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    is_union = get_origin(declared) in (Union, types.UnionType)
    kinds = [each for each in get_args(declared) if each is not types.NoneType] if is_union else [declared]
    (kind,) = kinds
    words = next((note for note in notes if isinstance(note, Words)), None)
    if words is None:
        raise TypeError(f"{name}: {hint} lacks Words")
    if kind not in (int, float, str, Any) and get_origin(kind) is not Literal:
        raise TypeError(f"{name}: {hint} is none of the types whose values are checked")
    if words.sets and default is not None:  # a form sends defaults, which would silently replace the profile's setting
        raise TypeError(f"{name}: a field that sets a setting of the profile is None by default, not {default!r}")
    return Field(
        name=name,
        type=kind,
        is_optional=is_union,
        meta=next((note for note in notes if isinstance(note, Meta)), Meta()),
        default=default,
        words=words,
    )
