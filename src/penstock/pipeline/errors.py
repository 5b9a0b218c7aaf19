"""What goes wrong in the pipeline."""

from penstock.model.errors import PenstockError


class PipelineError(PenstockError):
    """What a job of the pipeline cannot work with: a schema that content cannot have, a session that does not start."""


class ArgumentError(PipelineError):
    """What somebody who starts a job has asked for cannot be."""
