"""The operators that change a module: operators of cosmic-ray, and three operators of our own.

mutmut 3 was tried, too. It changes only the bodies of functions, but here the rules are tables of lambdas.
"""

from __future__ import annotations

from collections.abc import Iterator

import cosmic_ray.plugins
import parso
from cosmic_ray.operators.operator import Example, Operator

Position = tuple[tuple[int, int], tuple[int, int]]
"""The place of a change: the start and the end as (line, column). Lines count from 1, columns from 0."""

OF_COSMIC_RAY = (
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is")),
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt")),
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt")),
    *(f"ReplaceBinaryOperator_{pair}" for pair in ("Add_Sub", "Sub_Add", "Sub_BitAnd", "Mul_Add", "Div_Mul")),
    *(f"ReplaceBinaryOperator_{pair}" for pair in ("FloorDiv_Mul", "Mod_Mul", "BitOr_BitAnd", "BitAnd_BitOr")),
    *(f"ReplaceUnaryOperator_{pair}" for pair in ("Delete_Not", "Delete_Invert", "USub_UAdd")),
    *("AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "NumberReplacer"),
    *("RemoveDecorator", "ZeroIterationForLoop"),
)
"""The operators of cosmic-ray that are used. Most other operators make mutants that the same tests kill. For example,
`==` becomes `!=`, but not also `<`, `>` and `is`."""


class Membership(Operator):
    """Turns `in` into `not in`, `not in` into `in`, `all` into `any`, and `any` into `all`."""

    OTHER = {"in": " not in", "not in": " in", "all": "any", "any": "all"}

    def mutation_positions(self, node: parso.tree.NodeOrLeaf) -> Iterator[Position]:
        is_operator = node.parent is not None and node.parent.type == "comparison"
        is_call = node.type == "name" and node.get_next_leaf() == "("
        if " ".join(node.get_code().split()) in self.OTHER and (is_operator or is_call):
            yield node.start_pos, node.end_pos

    def mutate(self, node: parso.tree.NodeOrLeaf, index: int) -> parso.tree.NodeOrLeaf:
        other = self.OTHER[" ".join(node.get_code().split())]
        prefix = node.get_first_leaf().prefix
        return parso.python.tree.Name(prefix + other.strip(), node.start_pos)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return Example("x in y", "x not in y"), Example("x not in y", "x in y"), Example("all(x)", "any(x)")


class NegatedCondition(Operator):
    """Negates the condition of a comprehension."""

    def mutation_positions(self, node: parso.tree.NodeOrLeaf) -> Iterator[Position]:
        if node.type == "comp_if":
            yield node.children[1].start_pos, node.children[1].end_pos

    def mutate(self, node: parso.tree.NodeOrLeaf, index: int) -> parso.tree.NodeOrLeaf:
        node.children[1] = parso.parse(f" not ({node.children[1].get_code().strip()})")
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("[x for x in y if x or z]", "[x for x in y if not (x or z)]"),)


class MissingCall(Operator):
    """Leaves out a statement that is only a call, e.g. `names.add(name)`."""

    def mutation_positions(self, node: parso.tree.NodeOrLeaf) -> Iterator[Position]:
        if node.type == "simple_stmt" and node.children[0].type in ("atom_expr", "power"):
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: parso.tree.NodeOrLeaf, index: int) -> parso.tree.NodeOrLeaf:
        call = node.children[0]
        node.children[0] = parso.python.tree.Name(call.get_first_leaf().prefix + "pass", call.start_pos)
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("names.add(x)\n", "pass\n"),)


OWN = (Membership, NegatedCondition, MissingCall)


def operators() -> list[Operator]:
    """All operators in use."""
    return [*(cosmic_ray.plugins.get_operator(f"core/{name}")() for name in OF_COSMIC_RAY), *(own() for own in OWN)]
