"""Values with their types, as elements of XML have them."""

from penstock.policy.xacml.forms.xml import XmlElement
from penstock.policy.xacml.names import OLD_TYPES, XPATH_EXPRESSION
from penstock.policy.xacml.tree import LiteralValue
from penstock.policy.xacml.values.values import DATA_TYPES, XPathExpression, read_value


def prefixes_of(element: XmlElement) -> tuple[tuple[str, str], ...]:
    """Return the prefixes that are in scope, in order."""
    return tuple(sorted((prefix, uri) for prefix, uri in element.prefixes.items() if prefix))


def read_literal(element: XmlElement) -> LiteralValue:
    """Read a value with its type; of an unknown type, its text. Raises `XacmlError`."""
    type_uri = element.need("DataType")
    type_uri = OLD_TYPES.get(type_uri, type_uri)
    if type_uri not in DATA_TYPES:
        return LiteralValue(type_uri, element.text)
    if type_uri == XPATH_EXPRESSION:
        category = element.get("XPathCategory") or ""
        return LiteralValue(type_uri, XPathExpression(element.text.strip(), category, prefixes_of(element)))
    return LiteralValue(type_uri, read_value(type_uri, element.text))
