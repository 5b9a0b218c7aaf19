"""The journal: a node's durable record of events and decisions, as files. `docs/journal.md` is its format."""
