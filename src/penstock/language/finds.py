"""The texts that a document must contain for a condition with XPath to be true."""

from penstock.language.tree import And, Binary, Call, ListOf, Literal, Tree, XPath
from penstock.model.content.xpath_texts import texts_of


def texts_needed(tree: Tree) -> frozenset[str]:
    """Return texts that XML content must have in elements or attributes for the condition to be true."""
    match tree:
        case And(operands):
            return frozenset().union(*map(texts_needed, operands))
        case Binary("!=", XPath(expression), ListOf(())) | Binary("!=", ListOf(()), XPath(expression)):
            return texts_of(expression)
        case Binary(">" | "!=", Call("size") as call, Literal("int", 0)) | Binary(
            ">=", Call("size") as call, Literal("int", 1)
        ):
            match call.operands:
                case (XPath(expression),):
                    return texts_of(expression)
    return frozenset()
