"""What goes wrong in the pipeline."""

from penstock.model.errors import PenstockError


class PipelineError(PenstockError):
    """A schema that content cannot have."""
