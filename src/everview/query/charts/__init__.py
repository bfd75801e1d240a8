"""Pictures of a view over time: its numbers as lines, its rows as bars from when until when they hold.

Both are drawn from the view's change stream. A notebook shows the picture, `print` a few lines of text.
"""

from everview.query.charts.chart import Chart, Piece, pieces
from everview.query.charts.plot import Plot
from everview.query.charts.timeline import Timeline
from everview.query.charts.view import View

__all__ = ["Chart", "Piece", "Plot", "Timeline", "View", "pieces"]
