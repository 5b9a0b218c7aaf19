"""The evaluation of the contracts paper again."""
