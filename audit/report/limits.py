"""How much data goes into the page, so that it opens quickly. The page says what is left out."""

from __future__ import annotations

LISTED_GROUPS = 20_000
DETAILED_GROUPS = 100  # groups with drawings

FINDINGS_PER_RULE = 200
FINDINGS_PER_GROUP = 40
EXAMPLES = 12  # groups named where a check is not evaluable

GENERATIONS = 300  # in the drawings of a group
PARTITIONS = 48  # rows in the drawing of a group's owners
INTERVALS = 3_000  # bars in that drawing

SHARE_PARTITIONS = 200  # rows in the table of a share group's partitions
OFFSET_LINES = 12  # partitions whose offsets are drawn
STEPS = 300_000  # about as many commits are gathered for these lines; a sample if there are more
POINTS = 40_000  # points of all lines of all groups
POINTS_OF_LINE = 150
FEWEST_POINTS_OF_LINE = 30
REWINDS_OF_LINE = 25

LOG_PROBLEMS = 100
RUN_ROWS = 2_000
BINS = 96  # bars of the chart of findings over time
