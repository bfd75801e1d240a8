"""Charts of a view over time: its numbers as lines, its rows as bars over the time in which they are valid.

Both are drawn from the view's change stream. A notebook shows the SVG; `print` writes a few lines of text.

Altair was tried instead: its timelines are as good, with rounder ticks, but in a plot lines with equal values
hide each other, and drawing offline needs vl-convert, a binary of 88 MB.
"""

from everview.query.charts.chart import Chart, RecordInterval, record_intervals
from everview.query.charts.plot import Plot
from everview.query.charts.timeline import TimelineChart
from everview.query.charts.view import ChartView

__all__ = ["Chart", "ChartView", "Plot", "RecordInterval", "TimelineChart", "record_intervals"]
