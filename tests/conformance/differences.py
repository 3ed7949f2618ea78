"""Scenarios in which the embedded server still differs from a real one, and in what.

A test that passes although it stands here fails: take it out.
"""

KNOWN: dict[str, str] = {}

# Sessions at kubectl and helm, by their id.
TYPED: dict[str, str] = {}
