"""The normal form of conjunctive conditions: the possible values of each attribute; for *covers* and *intersects*.

In the class are comparisons of an attribute with a constant, `in` a list of constants, `startsWith`, `has`, an
attribute that is itself true or false, their negations, `&&` between all of them, and `||` between those of one
attribute. For a condition in the class everything here is exact, over all contents; for another, the answer is None.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_

from penstock.language import tree as ast
from penstock.language.ranges import regions
from penstock.language.ranges.regions import Region
from penstock.language.values import Value

Path = tuple[str, ...]
"""An attribute, or a field of one: `a.b` is `("a", "b")`."""

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_SCALARS = ("int", "double", "string", "bool", "null_type")


@dataclass(frozen=True, slots=True)
class Ranges:
    """The contents for which a condition is true: those with each attribute in its region; others may be anything."""

    regions: Mapping[Path, Region]

    @property
    def is_empty(self) -> bool:
        """True if no content satisfies it."""
        return not all(self.regions.values())

    def accepts(self, attributes: Mapping[str, Value]) -> bool:
        """Return whether the condition is true for this content."""
        return all(_value_at(attributes, path) in region for path, region in self.regions.items())

    def region(self, path: Path) -> Region:
        """Return the possible values of an attribute where the condition is true; it need not name it."""
        if path in self.regions:
            return self.regions[path]
        if any(_extends(named, path) for named in self.regions):
            return regions.OTHER  # it has a field
        if any(_extends(path, named) and not region.other for named, region in self.regions.items()):
            return regions.BROKEN  # it is a field of what has none
        parent = path[:-1]
        has_parent = not parent or any(_extends(named, parent) for named in self.regions)
        return regions.everything(top=has_parent)


def ranges(tree: ast.Tree) -> Ranges | None:
    """Return the normal form of a condition, None if it is not in the class."""
    by_path: dict[Path, Region] = {}
    for operand in tree.operands if isinstance(tree, ast.And) else (tree,):
        truth = _truth(operand)
        if truth is None:
            return None
        by_path[truth.path] = by_path.get(truth.path, regions.everything(top=False)) & truth.true
    return _consistent(by_path)


def covers(wide: Ranges | None, narrow: Ranges | None) -> bool | None:
    """Return whether the first is true wherever the second is."""
    if narrow is not None and narrow.is_empty:
        return True
    if wide is None or narrow is None:
        return None
    return all(narrow.region(path) <= region for path, region in wide.regions.items())


def intersects(left: Ranges | None, right: Ranges | None) -> bool | None:
    """Return whether there is content for which both are true."""
    if any(ranges is not None and ranges.is_empty for ranges in (left, right)):
        return False
    if left is None or right is None:
        return None
    for path in left.regions.keys() & right.regions.keys():
        if not left.regions[path].meets(right.regions[path]):
            return False
    paths = {**left.regions, **right.regions}
    if all(len(path) == 1 for path in paths):
        return True
    free = regions.everything(top=False)
    both = {path: left.regions.get(path, free) & right.regions.get(path, free) for path in paths}
    return not _consistent(both).is_empty


def _consistent(by_path: dict[Path, Region]) -> Ranges:
    """Return ranges in which an attribute with a field is a map: its own region is dropped, or excludes all."""
    consistent = dict(by_path)
    for path, region in by_path.items():
        if any(_extends(other, path) for other in by_path):
            if region.other:
                del consistent[path]
            else:
                consistent[path] = regions.EMPTY
    return Ranges(consistent)


def _extends(path: Path, prefix: Path) -> bool:
    return len(path) > len(prefix) and path[: len(prefix)] == prefix


def _value_at(attributes: Mapping[str, Value], path: Path) -> Value | regions.NoValue:
    inside: Value = attributes
    for step, name in enumerate(path):
        if step and type(inside) is not dict:
            return regions.NoValue.BROKEN
        if name not in inside:
            return regions.NoValue.ABSENT if step == len(path) - 1 else regions.NoValue.BROKEN
        inside = inside[name]
    return inside


@dataclass(frozen=True, slots=True)
class _Truth:
    """The regions where a condition on one attribute is true, and where it is false; elsewhere it fails."""

    path: Path
    true: Region
    false: Region


def _truth(node: ast.Tree) -> _Truth | None:
    path = _path(node)
    if path is not None:
        return _Truth(path, regions.equal_to(True), regions.equal_to(False))
    match node:
        case ast.Unary("!", operand):
            truth = _truth(operand)
            return None if truth is None else _Truth(truth.path, truth.false, truth.true)
        case ast.And(operands) | ast.Or(operands):
            return _combined(isinstance(node, ast.And), operands)
        case ast.Has(operand, name):
            parent = () if operand is None else _path(operand)
            return None if parent is None else _Truth((*parent, name), regions.PRESENT, regions.ABSENT)
        case ast.Call("startsWith", receiver, (ast.Literal("string", str(prefix)),)) if receiver is not None:
            return _tested(receiver, regions.starting_with(prefix), regions.ALL_STRINGS)
        case ast.Binary("in", left, ast.ListOf(items)) if all(map(_is_constant, items)):
            values = (item.value for item in items if isinstance(item, ast.Literal))
            return _tested(left, regions.union(map(regions.equal_to, values)), regions.PRESENT)
        case ast.Binary(operator, left, ast.Literal() as constant) if _is_constant(constant):
            return _compared(operator, left, constant)
        case ast.Binary(operator, ast.Literal() as constant, right) if _is_constant(constant) and operator in _MIRRORED:
            return _compared(_MIRRORED[operator], right, constant)
        case _:
            return None


def _combined(is_and: bool, operands: tuple[ast.Tree, ...]) -> _Truth | None:
    truths = [_truth(operand) for operand in operands]
    known = [truth for truth in truths if truth is not None]
    if len(known) < len(truths) or any(truth.path != known[0].path for truth in known):
        return None
    # One operand that decides does so whatever the others are, failures included.
    true, false = [truth.true for truth in known], [truth.false for truth in known]
    if is_and:
        return _Truth(known[0].path, reduce(and_, true), regions.union(false))
    return _Truth(known[0].path, regions.union(true), reduce(and_, false))


def _compared(operator: str, left: ast.Tree, literal: ast.Literal) -> _Truth | None:
    constant = literal.value
    if operator in ("==", "!="):
        truth = _tested(left, regions.equal_to(constant), regions.PRESENT)
        if truth is None or operator == "==":
            return truth
        return _Truth(truth.path, truth.false, truth.true)
    if operator not in _MIRRORED or constant is None:
        return None
    true = regions.below(constant) if operator in ("<", "<=") else regions.above(constant)
    if operator in ("<=", ">="):
        true = true | regions.equal_to(constant)
    return _tested(left, true, regions.like(constant))


def _tested(left: ast.Tree, true: Region, domain: Region) -> _Truth | None:
    """Return a test that has a value for what is in its domain."""
    path = _path(left)
    return None if path is None else _Truth(path, true, domain - true)


def _is_constant(node: ast.Tree) -> bool:
    return isinstance(node, ast.Literal) and node.kind in _SCALARS


def _path(node: ast.Tree) -> Path | None:
    names: list[str] = []
    while True:
        match node:
            case ast.Attribute(name):
                return (name, *reversed(names))
            case ast.Select(operand, name) | ast.IndexAccess(operand, ast.Literal("string", str(name))):
                names.append(name)
                node = operand
            case _:
                return None
