"""Common parts of the figures."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure


def legend_below(figure: Figure, panel: Axes) -> None:
    """The lines of a panel, which are those of all, told below them, where they hide nothing."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
