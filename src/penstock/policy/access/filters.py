"""Topic filters by their levels: which of many may match a topic, without asking each."""

from collections.abc import Iterable, Iterator

_Tree = dict[str, "_Tree | list[int]"]
_HERE = ""
"""The key of the filters that end at a node. It cannot be taken for a level: levels have a mark before them."""


class FilterTree:
    """The places of filters in a sequence, found by topic. It may find some too many, never too few."""

    def __init__(self, filters: Iterable[str]) -> None:
        self._root: _Tree = {}
        for place, filter in enumerate(filters):
            node = self._root
            for level in filter.split("/"):
                if level == "#":
                    break  # what ends here is found for all topics below
                node = node.setdefault(f"/{level}", {})  # type: ignore[assignment]
            key = "#" if filter.endswith("#") else _HERE
            node.setdefault(key, []).append(place)  # type: ignore[union-attr]

    def find(self, topic: str) -> list[int]:
        """The places of those that may match, in order."""
        return sorted(self._walk(self._root, topic.split("/"), 0))

    def _walk(self, node: _Tree, levels: list[str], depth: int) -> Iterator[int]:
        yield from node.get("#", ())  # type: ignore[misc]
        if depth == len(levels):
            yield from node.get(_HERE, ())  # type: ignore[misc]
            return
        for key in dict.fromkeys((f"/{levels[depth]}", "/+")):
            below = node.get(key)
            if isinstance(below, dict):
                yield from self._walk(below, levels, depth + 1)
