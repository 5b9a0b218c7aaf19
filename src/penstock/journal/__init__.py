"""A node's durable record of events and decisions, as files. `docs/journal.md` describes the format."""
