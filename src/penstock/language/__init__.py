"""The condition language: CEL's syntax, one tree, a checker, a printer, and evaluators with one meaning.

Start with `condition.py`; `docs/conditions.md` is the page for people who write conditions.
"""
