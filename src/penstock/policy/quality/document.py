"""An event as XML with its quality, for needs in XPath: one document for all needs, and one bound on their cost.

It is made once for each content and quality, whoever asks, and what a need finds in it is found once. Steps are counted
on the event's content, together with those of conditions (`language/condition.py`); beyond the bound, needs are not
satisfied.
"""

from penstock.language.condition import XPATH_STEPS
from penstock.language.limits import MAX_EVENT_WORK
from penstock.model.content.content import Content, Format
from penstock.model.content.xpath import Document
from penstock.model.errors import BoundError, ContentError
from penstock.model.quality import Quality
from penstock.policy.quality.xml import check_utf8, put_indicators

_NO_XML = b"<event/>"
_SIZE_OF_A_VALUE = 24
"""The most that a value adds to the size of a document: elements, attributes and characters."""
_MAKING = 2
"""Steps that making a document takes, for each one of its size."""
_MIN_STEPS = 50
"""Steps that an expression takes on the smallest of documents."""


class QualityDocument:
    """The document of a content and a quality, and the results of needs on it."""

    __slots__ = ("_answers", "_content", "_document", "_quality", "_wrong")

    def __init__(self, content: Content, quality: Quality) -> None:
        self._content = content
        self._quality = quality
        self._document: Document | None = None
        self._wrong = ""
        self._answers: dict[str, str] = {}

    def why_not(self, expression: str) -> str:
        """Return why an expression finds nothing in it; empty if it finds something."""
        answer = self._answers.get(expression)
        if answer is None:
            try:
                answer = self._evaluate(expression)
            except ContentError as error:
                return f"`{expression}` has no value: {error}"
            self._answers[expression] = answer
        return answer

    def _evaluate(self, expression: str) -> str:
        if self._wrong:
            raise ContentError(self._wrong)
        max_steps = MAX_EVENT_WORK if self._content.max_steps is None else self._content.max_steps
        if self._content.spent > max_steps:
            raise BoundError(f"what is asked of this event takes more than {max_steps} steps")
        if self._document is None:
            try:
                self._document = self._make_document()
            except ContentError as error:
                self._wrong = str(error)
                raise
        is_there = self._document.has(expression, self._charge)
        return "" if is_there else f"`{expression}` finds nothing"

    def _make_document(self) -> Document:
        """Make the document. Content that is not XML counts as an empty document."""
        content = self._content if self._content.format is Format.XML else Content(_NO_XML, Format.XML)
        document = content.new_document()
        check_utf8(document.root, content.payload)
        put_indicators(document.root, self._quality)
        document.size += _SIZE_OF_A_VALUE * len(self._quality)
        self._content.spent += _MAKING * document.size
        return document

    def _charge(self, steps: int) -> None:
        self._content.spent += max(steps // XPATH_STEPS, _MIN_STEPS)


def document_of(content: Content | None, quality: Quality) -> QualityDocument:
    """Return the document of a content and a quality: the same object for all callers."""
    if content is None:
        return QualityDocument(Content(_NO_XML, Format.XML), quality)
    return content.cached(("quality", quality), lambda: QualityDocument(content, quality))
