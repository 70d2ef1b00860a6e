"""Tasks: data, training objective, scores and compression guidance of each, behind one registry."""
